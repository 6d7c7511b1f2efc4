package policy

allow := true

# METADATA
# entrypoint: true
out := {
	"lower": lower(input.s),
	"upper": upper(input.s),
	"reverse": strings.reverse(input.s),
	"count": count(input.s),
	"trim": trim(input.s, " x"),
	"trim_left": trim_left(input.s, "a"),
	"trim_right": trim_right(input.s, "a"),
	"trim_prefix": trim_prefix(input.s, "ab"),
	"trim_suffix": trim_suffix(input.s, "ba"),
	"trim_space": trim_space(input.s),
	"split": split(input.s, "b"),
	"replace": replace(input.s, "a", "<>"),
	"contains": contains(input.s, "ab"),
	"starts": startswith(input.s, "a"),
	"ends": endswith(input.s, "a"),
	"indexof": indexof(input.s, "b"),
	"indexof_n": indexof_n(input.s, "a"),
	"substring": substring(input.s, 1, 3),
	"any_prefix": strings.any_prefix_match(input.s, ["x", "ab"]),
	"any_suffix": strings.any_suffix_match(input.s, ["x", "ba"]),
	"count_of": strings.count(input.s, "a"),
	"replace_n": strings.replace_n({"a": "1", "b": "2"}, input.s),
}
#: {"input": {"s": "abcab a"}}
#: {"input": {"s": " xx aba "}}
#: {"input": {"s": ""}}
#: {"input": {"s": "ÄÖ ß 日本 🎉"}}
#: {"input": {"s": "aaa"}}
#: {"input": {"s": "ab\nba\t"}}
#: {"input": {"s": 5}}
