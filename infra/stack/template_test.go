package stack

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// template is a synthesised template, with CloudFormation's functions folded into strings.
type template struct {
	Resources map[string]resource
	Outputs   map[string]any
}

type resource struct {
	Type           string
	Properties     map[string]any
	DeletionPolicy string
	Metadata       map[string]any
	DependsOn      []string
}

// assets creates a folder like dist/.
func assets(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	files := []string{"agent/amd64/tradewind-agent", "agent/arm64/tradewind-agent"}
	for _, fn := range functionNames() {
		files = append(files, "lambda/"+fn+"/bootstrap")
	}
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// synthesise returns the templates of a configuration, by stack.
func synthesise(tb testing.TB, change func(*Config)) map[string]template {
	tb.Helper()
	cfg := Default()
	cfg.Assets, cfg.Out = assets(tb), filepath.Join(tb.TempDir(), "cdk.out")
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		tb.Fatal(err)
	}
	Synthesise(cfg)
	paths, err := filepath.Glob(filepath.Join(cfg.Out, "*.template.json"))
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]template{}
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		var t template
		if err := json.Unmarshal(raw, &t); err != nil {
			tb.Fatal(err)
		}
		for id, r := range t.Resources {
			r.Properties = fold(r.Properties).(map[string]any)
			t.Resources[id] = r
		}
		all[strings.TrimSuffix(filepath.Base(p), ".template.json")] = t
	}
	return all
}

// fold turns {"Ref": X} into "<X>" and {"Fn::GetAtt": [X, A]} into "<X.A>", and evaluates joins.
func fold(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = fold(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = fold(v[k])
		}
		if len(v) != 1 {
			return v
		}
		for k, arg := range v {
			switch k {
			case "Ref":
				return fmt.Sprintf("<%s>", arg)
			case "Fn::GetAtt":
				return fmt.Sprintf("<%s.%s>", arg.([]any)[0], arg.([]any)[1])
			case "Fn::Sub":
				return arg
			case "Fn::Join":
				var b strings.Builder
				for i, part := range arg.([]any)[1].([]any) {
					if i > 0 {
						b.WriteString(arg.([]any)[0].(string))
					}
					fmt.Fprint(&b, part)
				}
				return b.String()
			}
		}
	}
	return v
}

// deployed is the template of the default configuration, synthesised only once because it takes seconds.
var deployed = sync.OnceValue(func() func(*testing.T) template {
	var once sync.Once
	var made template
	return func(t *testing.T) template {
		t.Helper()
		once.Do(func() { made = synthesise(t, nil)["tradewind"] })
		if len(made.Resources) == 0 {
			t.Fatal("the template could not be synthesised")
		}
		return made
	}
})

// of returns the resources of a type by logical ID.
func (t template) of(typ string) map[string]resource {
	out := map[string]resource{}
	for id, r := range t.Resources {
		if r.Type == typ {
			out[id] = r
		}
	}
	return out
}

// named returns the only resource of a type whose property has a value.
func (t template) named(tb testing.TB, typ, property, value string) (string, resource) {
	tb.Helper()
	for id, r := range t.of(typ) {
		if r.Properties[property] == value {
			return id, r
		}
	}
	tb.Fatalf("no %s whose %s is %q", typ, property, value)
	return "", resource{}
}

// at follows a path of keys into a property.
func (r resource) at(path ...string) any {
	var v any = r.Properties
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

// words returns a property that is a string or a list of strings as a list.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, w := range v {
			out = append(out, fmt.Sprint(w))
		}
		return out
	}
	return nil
}

// statement is a policy statement with its role.
type statement struct {
	role      string   // its name
	roles     []string // all of its policy
	effect    string
	actions   []string
	resources []string
	condition map[string]any
}

// statements returns the statements of all roles, including those in overflow policies.
func (t template) statements() []statement {
	names := map[string]string{}
	for id, r := range t.of("AWS::IAM::Role") {
		names["<"+id+">"] = strings.TrimSuffix(fmt.Sprint(r.Properties["RoleName"]), "-${AWS::Region}")
	}
	var out []statement
	policies := t.of("AWS::IAM::Policy")
	maps.Copy(policies, t.of("AWS::IAM::ManagedPolicy"))
	for _, p := range policies {
		roles := words(p.Properties["Roles"])
		for i := range roles {
			roles[i] = names[roles[i]]
		}
		for _, s := range p.at("PolicyDocument", "Statement").([]any) {
			m := s.(map[string]any)
			c, _ := m["Condition"].(map[string]any)
			out = append(out, statement{
				role: roles[0], roles: roles, effect: m["Effect"].(string),
				actions: words(m["Action"]), resources: words(m["Resource"]), condition: c,
			})
		}
	}
	slices.SortFunc(out, func(a, b statement) int { return strings.Compare(a.role, b.role) })
	return out
}
