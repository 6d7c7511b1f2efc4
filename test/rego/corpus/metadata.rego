# METADATA
# title: A policy with annotations
# description: All of them are ignored but entrypoint
# custom:
#   owner: team
package policy

default allow := false

# METADATA
# title: The rule
# scope: rule
allow if input.ok

# METADATA
# entrypoint: true
chain := [c.path | some c in rego.metadata.chain()]

# METADATA
# title: This one
# scope: rule
helper := rego.metadata.rule().title

# METADATA
# entrypoint: true
own := helper
#: {"input": {"ok": true}}
#: {"input": {}}
