package policy

import rego.v1

default allow := false

allow if count(violations) == 0

violations contains sprintf("trail %s has no approved pull request", [trail.name]) if {
	some trail in input.trails
	not has_approval(trail)
}

violations contains sprintf("trail %s: %s is older than %d days", [trail.name, a.attestation_name, data.params.days]) if {
	some trail in input.trails
	some a in trail.compliance_status.attestations_statuses
	age := (data.kosli.evaluation_time / 1000000000 - a.created_at) / 86400
	age > data.params.days
}

has_approval(trail) if {
	some pr in trail.compliance_status.attestations_statuses["pull-request"].pull_requests
	some approver in pr.approvers
	approver.username != pr.author
}

# METADATA
# entrypoint: true
report := {t.name: object.keys(t.compliance_status.attestations_statuses) | some t in input.trails}
#: {"input": {"trails": [{"name": "t1", "compliance_status": {"attestations_statuses": {"pull-request": {"attestation_name": "pull-request", "created_at": 1756990000.25, "pull_requests": [{"author": "a", "approvers": [{"username": "b"}]}]}}}}]}, "params": {"days": 1}}
#: {"input": {"trails": [{"name": "t1", "compliance_status": {"attestations_statuses": {"pull-request": {"attestation_name": "pull-request", "created_at": 1750000000, "pull_requests": [{"author": "a", "approvers": [{"username": "a"}]}]}}}}, {"name": "t2", "compliance_status": {"attestations_statuses": {}}}]}, "params": {"days": 30}}
#: {"input": {"trails": []}, "params": {"days": 1}}
#: {"input": {"trails": [{"name": "x"}]}, "params": {}}
