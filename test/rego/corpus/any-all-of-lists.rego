package policy

default allow := false

allow if {
	some s in input.scans
	s.kind == data.params.kind
	every f in s.findings {
		f.severity in data.params.accepted
	}
}

# METADATA
# entrypoint: true
worst := max([data.order[f.severity] | some s in input.scans; some f in s.findings])

#: file data.json
{"order": {"low": 1, "medium": 2, "high": 3, "critical": 4}}
#: {"input": {"scans": [{"kind": "snyk", "findings": [{"severity": "low"}]}]}, "params": {"kind": "snyk", "accepted": ["low"]}}
#: {"input": {"scans": [{"kind": "snyk", "findings": [{"severity": "critical"}, {"severity": "low"}]}]}, "params": {"kind": "snyk", "accepted": ["low"]}}
#: {"input": {"scans": []}, "params": {"kind": "snyk", "accepted": []}}
#: {"input": {"scans": [{"kind": "trivy", "findings": [{"severity": "unknown"}]}]}, "params": {"kind": "trivy", "accepted": ["unknown"]}}
