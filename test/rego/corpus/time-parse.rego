package policy

allow := true

# METADATA
# entrypoint: true
rfc := time.parse_rfc3339_ns(input.t)

# METADATA
# entrypoint: true
layout := time.parse_ns("2006-01-02", input.t)

# METADATA
# entrypoint: true
duration := time.parse_duration_ns(input.d)

# METADATA
# entrypoint: true
age_days := floor((time.now_ns() - time.parse_rfc3339_ns(input.t)) / (24 * 60 * 60 * 1000000000))
#: {"input": {"t": "2026-11-26T10:00:00Z", "d": "1h30m"}}
#: {"input": {"t": "2025-09-04T15:33:20.5+02:00", "d": "300ms"}}
#: {"input": {"t": "2025-02-30T00:00:00Z", "d": "1d"}}
#: {"input": {"t": "2025-01-31", "d": "-2h"}}
#: {"input": {"t": "", "d": ""}}
#: {"input": {"t": "1969-12-31T23:59:59Z", "d": "1.5us"}}
