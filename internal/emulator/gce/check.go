package gce

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// discovery has Google's published API descriptions. discovery/VERSION has their version; scripts/discovery.sh wrote
// them.
//
//go:embed discovery/*.json
var discovery embed.FS

// api is a discovery document.
type api struct {
	Name        string             `json:"name"`
	RootURL     string             `json:"rootUrl"`
	ServicePath string             `json:"servicePath"`
	Parameters  map[string]*schema `json:"parameters"`
	Methods     map[string]*method `json:"methods"`
	Schemas     map[string]*schema `json:"schemas"`
}

type method struct {
	ID         string
	HTTPMethod string             `json:"httpMethod"`
	FlatPath   string             `json:"flatPath"`
	Path       string             `json:"path"`
	Parameters map[string]*schema `json:"parameters"`
	Request    *schema            `json:"request"`
	Response   *schema            `json:"response"`

	api     *api
	pattern *regexp.Regexp
}

// schema is a type, or a parameter.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Location   string             `json:"location"`
	Enum       []string           `json:"enum"`
	Required   bool               `json:"required"`
	ReadOnly   bool               `json:"readOnly"` // only answers have it
	Repeated   bool               `json:"repeated"`
	Properties map[string]*schema `json:"properties"`
	Additional *schema            `json:"additionalProperties"`
	Items      *schema            `json:"items"`
}

var placeholder = regexp.MustCompile(`\\\{[^}]*\\\}`)

// methods returns all methods of the descriptions.
var methods = sync.OnceValues(func() ([]*method, error) {
	files, err := discovery.ReadDir("discovery")
	if err != nil {
		return nil, err
	}
	var all []*method
	for _, f := range files {
		text, err := discovery.ReadFile(path.Join("discovery", f.Name()))
		if err != nil {
			return nil, err
		}
		var a api
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		for name, m := range a.Methods {
			m.ID, m.api = a.Name+"."+name, &a
			flat := m.FlatPath
			if flat == "" {
				flat = m.Path
			}
			expr := placeholder.ReplaceAllString(regexp.QuoteMeta("/"+a.ServicePath+flat), `([^/]+)`)
			if m.pattern, err = regexp.Compile("^" + expr + "$"); err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
})

// find returns the method of a request and the values of the placeholders in its path, in order.
func find(httpMethod, path string) (*method, []string, error) {
	all, err := methods()
	if err != nil {
		return nil, nil, err
	}
	var best *method
	var args []string
	for _, m := range all {
		if m.HTTPMethod != httpMethod {
			continue
		}
		// a literal word wins over a placeholder: images/family/F over images/IMAGE
		if found := m.pattern.FindStringSubmatch(path); found != nil && (best == nil || m.moreSpecific(best)) {
			best, args = m, found[1:]
		}
	}
	if best == nil {
		return nil, nil, fmt.Errorf("%s %s: no method in Google's description", httpMethod, path)
	}
	return best, args, nil
}

// moreSpecific reports whether a path that both methods match belongs to m: it has fewer placeholders, or more literal
// text after one, as in topics/TOPIC:getIamPolicy.
func (m *method) moreSpecific(other *method) bool {
	if a, b := m.pattern.NumSubexp(), other.pattern.NumSubexp(); a != b {
		return a < b
	}
	return len(m.pattern.String()) > len(other.pattern.String())
}

// checkQuery checks query parameters against a method's description.
func (m *method) checkQuery(q url.Values) error {
	for name, values := range q {
		p := m.Parameters[name]
		if p == nil || p.Location != "query" {
			p = m.api.Parameters[name]
		}
		if p == nil {
			return fmt.Errorf("%s has no parameter %s", m.ID, name)
		}
		if len(values) > 1 && !p.Repeated {
			return fmt.Errorf("%s: parameter %s occurs %d times", m.ID, name, len(values))
		}
		for _, v := range values {
			if err := p.checkParameter(v); err != nil {
				return fmt.Errorf("%s: parameter %s: %w", m.ID, name, err)
			}
		}
	}
	for name, p := range m.Parameters {
		if p.Required && p.Location == "query" && !q.Has(name) {
			return fmt.Errorf("%s lacks parameter %s", m.ID, name)
		}
	}
	return nil
}

// checkParameter checks the text of a parameter against its type.
func (s *schema) checkParameter(v string) error {
	var err error
	switch s.Type {
	case "integer":
		_, err = strconv.ParseInt(v, 10, 64)
	case "boolean":
		_, err = strconv.ParseBool(v)
	case "number":
		_, err = strconv.ParseFloat(v, 64)
	}
	if err == nil && len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		err = fmt.Errorf("%q is not one of %v", v, s.Enum)
	}
	return err
}

// checkBody checks JSON against a type. If the method has no type, the body must be empty.
func (m *method) checkBody(what string, s *schema, text []byte) error {
	if s == nil {
		if len(strings.TrimSpace(string(text))) > 0 {
			return fmt.Errorf("%s has no %s", m.ID, what)
		}
		return nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%s: %s: %w", m.ID, what, err)
	}
	if err := m.api.value(s, v, what); err != nil {
		return fmt.Errorf("%s: %w", m.ID, err)
	}
	return nil
}

// value checks a value against a type; at is its position for errors.
func (a *api) value(s *schema, v any, at string) error {
	if s.Ref != "" {
		named, ok := a.Schemas[s.Ref]
		if !ok {
			return fmt.Errorf("%s: type %s is not described", at, s.Ref)
		}
		s = named
	}
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return a.object(s, v, at)
	case []any:
		if s.Type != "array" || s.Items == nil {
			return fmt.Errorf("%s is a list but should be %s", at, s.Type)
		}
		for i, e := range v {
			if err := a.value(s.Items, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case bool:
		return s.want("boolean", at)
	case json.Number:
		if s.Type == "integer" && strings.ContainsAny(v.String(), ".eE") {
			return fmt.Errorf("%s: %s is not a whole number", at, v)
		}
		return s.want("integer", at, "number")
	case string:
		return s.text(v, at)
	}
	return fmt.Errorf("%s: %T", at, v)
}

func (a *api) object(s *schema, v map[string]any, at string) error {
	if s.Type != "object" {
		return fmt.Errorf("%s is an object but should be %s", at, s.Type)
	}
	for name, e := range v {
		p := s.Properties[name]
		if p == nil {
			p = s.Additional
		}
		if p == nil {
			return fmt.Errorf("%s has no field %s", at, name)
		}
		if p.ReadOnly && strings.HasPrefix(at, "request") {
			return fmt.Errorf("%s.%s is output only", at, name)
		}
		if err := a.value(p, e, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) want(kind, at string, also ...string) error {
	if s.Type != kind && s.Type != "any" && !slices.Contains(also, s.Type) {
		return fmt.Errorf("%s is %s but should be %s", at, kind, s.Type)
	}
	return nil
}

// text checks a string against its type: numbers of 64 bits are strings in Google's JSON.
func (s *schema) text(v, at string) error {
	if err := s.want("string", at); err != nil {
		return err
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %q is not one of %v", at, v, s.Enum)
	}
	var err error
	switch s.Format {
	case "int64":
		_, err = strconv.ParseInt(v, 10, 64)
	case "uint64":
		_, err = strconv.ParseUint(v, 10, 64)
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not a number", at, v)
	}
	return nil
}
