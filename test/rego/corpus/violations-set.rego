package policy

allow if count(violations) == 0

violations contains msg if {
	some item in input.items
	item.score > data.params.max
	msg := sprintf("%s scores %d, over %d", [item.name, item.score, data.params.max])
}
#: {"input": {"items": [{"name": "b", "score": 9}, {"name": "a", "score": 8}, {"name": "c", "score": 1}]}, "params": {"max": 5}}
#: {"input": {"items": [{"name": "b", "score": 9}]}, "params": {"max": 9}}
#: {"input": {"items": []}, "params": {"max": 1}}
#: {"input": {}, "params": {"max": 1}}
#: {"input": {"items": [{"name": "x", "score": 2}]}, "params": {}}
