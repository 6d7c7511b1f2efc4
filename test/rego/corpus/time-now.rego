package policy

default allow := false

allow if {
	[hour, _, _] := time.clock([time.now_ns(), data.params.zone])
	hour < data.params.until
}

# METADATA
# entrypoint: true
now := time.now_ns()

# METADATA
# entrypoint: true
same := time.now_ns() == data.kosli.evaluation_time

# METADATA
# entrypoint: true
day := time.weekday([time.now_ns(), data.params.zone])
#: {"input": {}, "params": {"zone": "Europe/Berlin", "until": 18}}
#: {"input": {}, "params": {"zone": "Asia/Tokyo", "until": 12}}
#: {"input": {}, "params": {"zone": "Nowhere/City", "until": 24}}
#: {"input": {}, "params": {"zone": "UTC", "until": 16}}
#: {"input": {}, "params": {}}
