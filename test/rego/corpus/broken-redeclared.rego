package policy

allow if {
	x := 1
	x := 2
}
