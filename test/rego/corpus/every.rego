package policy

default allow := false

allow if {
	every trail in input.trails {
		trail.compliant
		every name, a in trail.attestations {
			a.ok
			startswith(name, "a")
		}
	}
}
#: {"input": {"trails": []}}
#: {"input": {"trails": [{"compliant": true, "attestations": {"a1": {"ok": true}}}]}}
#: {"input": {"trails": [{"compliant": true, "attestations": {"b1": {"ok": true}}}]}}
#: {"input": {"trails": [{"compliant": false, "attestations": {}}]}}
#: {"input": {"trails": [{"compliant": true}]}}
#: {"input": {}}
