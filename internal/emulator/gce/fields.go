package gce

import (
	"encoding/json"
	"fmt"
	"strings"
)

// tree has the fields that an answer keeps. An empty tree keeps all below it; "*" matches any name.
type tree map[string]tree

// mask reduces an answer to the requested fields (Compute Engine documentation, "Partial responses").
func mask(text []byte, fields string) ([]byte, error) {
	t, rest, err := parseFields(fields)
	if err != nil || rest != "" {
		return nil, fmt.Errorf("fields %q: at %q: %w", fields, rest, err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return json.Marshal(t.keep(v))
}

func (t tree) keep(v any) any {
	if len(t) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			below, ok := t[name]
			if !ok {
				below, ok = t["*"]
			}
			if ok {
				out[name] = below.keep(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = t.keep(e)
		}
		return out
	}
	return v
}

// parseFields reads a,b/c,d(e,f) up to a closing parenthesis or the end.
func parseFields(s string) (t tree, rest string, err error) {
	t = tree{}
	for {
		end := strings.IndexAny(s, ",()")
		if end < 0 {
			end = len(s)
		}
		at := t
		for name := range strings.SplitSeq(s[:end], "/") {
			if name == "" {
				return nil, s, fmt.Errorf("a field without a name")
			}
			if at[name] == nil {
				at[name] = tree{}
			}
			at = at[name]
		}
		s = s[end:]
		if strings.HasPrefix(s, "(") {
			below, rest, err := parseFields(s[1:])
			if err != nil || !strings.HasPrefix(rest, ")") {
				return nil, rest, fmt.Errorf("a parenthesis is not closed")
			}
			for name, e := range below {
				at[name] = e
			}
			s = rest[1:]
		}
		if !strings.HasPrefix(s, ",") {
			return t, s, nil
		}
		s = s[1:]
	}
}

// filter returns the entries that match a filter: comparisons of one field each, joined by AND or by adjacent
// parentheses (Compute Engine API reference, "filter").
func filter[T any](all []T, expr string) ([]T, *Fault) {
	if strings.TrimSpace(expr) == "" {
		return all, nil
	}
	var kept []T
	for _, v := range all {
		text, err := json.Marshal(v)
		var fields map[string]any
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			return nil, invalid("filter: %v", err)
		}
		ok, f := matches(fields, expr)
		if f != nil {
			return nil, f
		}
		if ok {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

func matches(fields map[string]any, expr string) (bool, *Fault) {
	expr = strings.ReplaceAll(strings.ReplaceAll(expr, ") AND (", "\x00"), ") (", "\x00")
	expr = strings.ReplaceAll(strings.Trim(strings.TrimSpace(expr), "()"), " AND ", "\x00")
	all := true
	for part := range strings.SplitSeq(expr, "\x00") {
		name, want, ok := strings.Cut(part, "=")
		no := strings.HasSuffix(name, "!")
		name = strings.TrimSpace(strings.TrimSuffix(name, "!"))
		want = strings.Trim(strings.TrimSpace(want), `"`)
		if !ok || name == "" {
			return false, invalid("Invalid value for field 'filter': '%s'. Invalid list filter expression.", expr)
		}
		var v any = fields
		for key := range strings.SplitSeq(name, ".") {
			inner, _ := v.(map[string]any)
			v = inner[key]
		}
		have := ""
		if v != nil {
			have = fmt.Sprint(v)
		}
		all = all && (have == want) != no
	}
	return all, nil
}
