package policy

allow { input.x }
