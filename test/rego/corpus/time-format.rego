package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"date": time.date(input.ns),
	"clock": time.clock(input.ns),
	"weekday": time.weekday(input.ns),
	"format": time.format(input.ns),
	"berlin": time.clock([input.ns, "Europe/Berlin"]),
	"tokyo": time.date([input.ns, "Asia/Tokyo"]),
	"new_york": time.format([input.ns, "America/New_York", "RFC1123Z"]),
	"layout": time.format([input.ns, "Australia/Lord_Howe", "2006-01-02 15:04:05.000 MST"]),
}

# METADATA
# entrypoint: true
added := time.add_date(input.ns, 0, 1, 1)

# METADATA
# entrypoint: true
between := time.diff(input.ns, 0)
#: {"input": {"ns": 0}}
#: {"input": {"ns": 1757000000500000000}}
#: {"input": {"ns": 1774746000000000000}}
#: {"input": {"ns": 1761440400000000000}}
#: {"input": {"ns": -1000000000}}
#: {"input": {"ns": 951782400000000000}}
#: {"input": {"ns": 9223372036854775807}}
#: {"input": {"ns": 1.5}}
#: {"input": {"ns": "x"}}
