package policy

allow := true

# METADATA
# entrypoint: true
contains_it := net.cidr_contains(input.net, input.ip)

# METADATA
# entrypoint: true
intersects := net.cidr_intersects(input.net, "10.1.0.0/16")

# METADATA
# entrypoint: true
matches := net.cidr_contains_matches([input.net, "192.168.0.0/16"], [input.ip])

# METADATA
# entrypoint: true
expanded := net.cidr_expand(input.small)

# METADATA
# entrypoint: true
merged := net.cidr_merge([input.small, "10.0.0.4/30"])

# METADATA
# entrypoint: true
valid := net.cidr_is_valid(input.net)
#: {"input": {"net": "10.0.0.0/8", "ip": "10.2.3.4", "small": "10.0.0.0/30"}}
#: {"input": {"net": "2001:db8::/32", "ip": "2001:db8::1", "small": "2001:db8::/126"}}
#: {"input": {"net": "10.0.0.0/33", "ip": "10.0.0.1", "small": "10.0.0.8/31"}}
#: {"input": {"net": "0.0.0.0/0", "ip": "::1", "small": "10.0.0.1/32"}}
#: {"input": {"net": "x", "ip": "y", "small": "z"}}
