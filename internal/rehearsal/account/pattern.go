package account

import (
	"encoding/json"
	"fmt"
	"strings"
)

// matches reports whether an event matches a filter pattern of an event source mapping (AWS Lambda developer guide,
// "Filter rule syntax"): lists are alternatives, objects are nested. It supports equality, prefix, exists and numeric
// equality, and returns an error for other rules.
func matches(pattern, event any) (bool, error) {
	switch p := pattern.(type) {
	case map[string]any:
		e, _ := event.(map[string]any)
		for k, rule := range p {
			var field any
			present := false
			if e != nil {
				field, present = e[k]
			}
			ok, err := matchesField(rule, field, present)
			if err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	default:
		return false, fmt.Errorf("rehearsal: filter %v is not an object", pattern)
	}
}

func matchesField(rule, field any, present bool) (bool, error) {
	alternatives, ok := rule.([]any)
	if !ok {
		return matches(rule, field)
	}
	for _, a := range alternatives {
		ok, err := matchesOne(a, field, present)
		if err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

func matchesOne(rule, field any, present bool) (bool, error) {
	m, ok := rule.(map[string]any)
	if !ok {
		return present && rule == field, nil
	}
	if prefix, ok := m["prefix"].(string); ok {
		s, is := field.(string)
		return is && strings.HasPrefix(s, prefix), nil
	}
	if exists, ok := m["exists"].(bool); ok {
		return exists == present, nil
	}
	return false, fmt.Errorf("rehearsal: filter rule %v is not supported", rule)
}

// parsePattern parses a pattern.
func parsePattern(text string) (map[string]any, error) {
	var p map[string]any
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("rehearsal: filter %q: %w", text, err)
	}
	return p, nil
}
