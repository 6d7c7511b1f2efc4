package policy

allow if {
	input.x ==
}
