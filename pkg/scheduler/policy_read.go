package scheduler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits of a policy file.
const (
	maxPolicyBytes = 64 << 10
	maxTiers       = 16
	maxPlugins     = 64
	maxArgs        = 256
)

// ReadPolicy reads a policy from YAML:
//
//	actions: [enqueue, allocate, preempt, reclaim, backfill, reserve]
//	tiers:
//	  - [priority, gang]
//	  - - drf
//	    - name: binpack
//	      disable: [nodeOrder]
//	      args: {weight: 2, resources: {gpu: 5}}
//
// It fails with a *PolicyError that names line and field. The name of the file is only told.
func ReadPolicy(file string, data []byte) (*Policy, error) {
	p, err := readPolicy(data)
	return p, InFile(file, err)
}

func readPolicy(data []byte) (*Policy, error) {
	if len(data) > maxPolicyBytes {
		return nil, &PolicyError{Reason: fmt.Sprintf("it is larger than %d bytes", maxPolicyBytes)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, &PolicyError{Reason: "the file is empty", Hint: "it needs actions and tiers"}
	} else if err != nil {
		return nil, badYAML(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &PolicyError{Line: max(1, more.Line), Column: max(1, more.Column), Reason: "there is a second document", Hint: "a policy is one"}
	}
	p := &Policy{where: map[string]place{}}
	err := fieldsOf(doc.Content[0], "", map[string]func(*yaml.Node, string) error{
		"actions": func(n *yaml.Node, at string) error {
			names, err := words(n, at, "action", ActionNames())
			p.Actions, p.where[at] = names, place{n.Line, n.Column}
			return err
		},
		"tiers": func(n *yaml.Node, at string) (err error) {
			p.Tiers, err = readTiers(n, at, p.where)
			return err
		},
	})
	switch {
	case err != nil:
		return nil, err
	case len(p.Actions) == 0:
		return nil, wrong(doc.Content[0], "actions", "is missing", "one or more of "+strings.Join(ActionNames(), ", "))
	case len(p.Tiers) == 0:
		return nil, wrong(doc.Content[0], "tiers", "is missing", "lists of plugins: "+strings.Join(PluginNames(), ", "))
	}
	return p, nil
}

func badYAML(err error) error {
	e := &PolicyError{Line: 1, Column: 1, Reason: "is not YAML: " + err.Error()}
	if m := regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(err.Error()); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			e.Line = line
		}
		e.Reason = "is not YAML: " + m[2]
	}
	return e
}

func wrong(n *yaml.Node, field, reason, hint string) error {
	return &PolicyError{Line: n.Line, Column: n.Column, Field: field, Reason: reason, Hint: hint}
}

func readTiers(n *yaml.Node, at string, where map[string]place) (tiers [][]PluginConfig, err error) {
	known := map[string]builtin{}
	for _, b := range builtins() {
		known[b.name] = b
	}
	seen := map[string]int{}
	err = listOf(n, at, maxTiers, func(n *yaml.Node, at string) error {
		var tier []PluginConfig
		err := listOf(n, at, maxPlugins, func(n *yaml.Node, at string) error {
			conf, err := readPlugin(n, at, known)
			if err != nil {
				return err
			}
			if line := seen[conf.Name]; line > 0 {
				return wrong(n, at, fmt.Sprintf("plugin %s is there already, in line %d", conf.Name, line), "remove one")
			}
			seen[conf.Name], where[at] = n.Line, place{n.Line, n.Column}
			tier = append(tier, conf)
			return nil
		})
		tiers = append(tiers, tier)
		return err
	})
	return tiers, err
}

// readPlugin reads a plugin: its name, or a mapping.
func readPlugin(n *yaml.Node, at string, known map[string]builtin) (conf PluginConfig, err error) {
	if n.Kind == yaml.ScalarNode {
		conf.Name, err = word(n, at, "plugin", PluginNames())
		return conf, err
	}
	var args *yaml.Node
	err = fieldsOf(n, at, map[string]func(*yaml.Node, string) error{
		"name": func(n *yaml.Node, at string) (err error) {
			conf.Name, err = word(n, at, "plugin", PluginNames())
			return err
		},
		"disable": func(n *yaml.Node, at string) (err error) {
			conf.Disable, err = words(n, at, "function", functionNames())
			return err
		},
		"args": func(n *yaml.Node, _ string) error {
			args = n
			return nil
		},
	})
	switch {
	case err != nil:
		return conf, err
	case conf.Name == "":
		return conf, wrong(n, at+".name", "is missing", "one of "+strings.Join(PluginNames(), ", "))
	case args == nil:
		return conf, nil
	}
	conf.Args, err = readArgs(args, at+".args", known[conf.Name])
	return conf, err
}

func readArgs(n *yaml.Node, at string, b builtin) (Args, error) {
	out := Args{}
	fields := map[string]func(*yaml.Node, string) error{}
	for name, kind := range b.args {
		fields[name] = func(n *yaml.Node, at string) (err error) {
			switch kind {
			case argNumber:
				out[name], err = number(n, at)
			case argDuration:
				out[name], err = duration(n, at)
			case argNumbers:
				out[name], err = mapOf(n, at, number)
			case argWindows:
				out[name], err = mapOf(n, at, window)
			}
			return err
		}
	}
	if len(fields) == 0 && n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		return nil, wrong(n, at, "plugin "+b.name+" has no settings", "remove them")
	}
	return out, fieldsOf(n, at, fields)
}

// window reads {from: "22:00", to: "06:00", zone: Europe/Berlin}.
func window(n *yaml.Node, at string) (w Window, err error) {
	w.Zone = time.UTC
	from, to := false, false
	clock := func(to *time.Duration, given *bool) func(n *yaml.Node, at string) error {
		return func(n *yaml.Node, at string) error {
			t, err := time.Parse("15:04", n.Value)
			if err != nil || n.Kind != yaml.ScalarNode {
				return wrong(n, at, quote(n.Value)+" is no time of day", `write it as "22:00"`)
			}
			*to, *given = time.Duration(t.Hour())*time.Hour+time.Duration(t.Minute())*time.Minute, true
			return nil
		}
	}
	err = fieldsOf(n, at, map[string]func(*yaml.Node, string) error{
		"from": clock(&w.From, &from), "to": clock(&w.To, &to),
		"zone": func(n *yaml.Node, at string) error {
			zone, err := time.LoadLocation(n.Value)
			if err != nil || n.Kind != yaml.ScalarNode || n.Value == "Local" {
				return wrong(n, at, quote(n.Value)+" is no time zone", "write it as UTC or Europe/Berlin")
			}
			w.Zone = zone
			return nil
		},
	})
	switch {
	case err != nil:
		return w, err
	case !from:
		return w, wrong(n, at+".from", "is missing", `a time of day: "22:00"`)
	case !to:
		return w, wrong(n, at+".to", "is missing", `a time of day: "06:00"`)
	}
	return w, nil
}

func number(n *yaml.Node, at string) (float64, error) {
	x, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || n.Kind != yaml.ScalarNode || math.IsInf(x, 0) || !(math.Abs(x) <= 1e6) {
		return 0, wrong(n, at, quote(n.Value)+" is no number", "at most a million")
	}
	return x, nil
}

func duration(n *yaml.Node, at string) (time.Duration, error) {
	d, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode || d < 0 {
		return 0, wrong(n, at, quote(n.Value)+" is no duration", "write it as 30m or 24h")
	}
	return d, nil
}

func mapOf[T any](n *yaml.Node, at string, read func(*yaml.Node, string) (T, error)) (map[string]T, error) {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*maxArgs {
		return nil, wrong(n, at, "must be a mapping of at most "+strconv.Itoa(maxArgs)+" names", "")
	}
	out := map[string]T{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := read(n.Content[i+1], at+"."+n.Content[i].Value)
		if err != nil {
			return nil, err
		}
		out[n.Content[i].Value] = v
	}
	return out, nil
}

// fieldsOf reads a mapping of known fields.
func fieldsOf(n *yaml.Node, at string, known map[string]func(*yaml.Node, string) error) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, at, "must be a mapping", "")
	}
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	sort.Strings(names)
	given := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field := strings.TrimPrefix(at+"."+key.Value, ".")
		read := known[key.Value]
		switch {
		case read == nil:
			return wrong(key, field, "unknown field", suggest(key.Value, names))
		case given[key.Value]:
			return wrong(key, field, "is given twice", "remove one")
		}
		given[key.Value] = true
		if err := read(n.Content[i+1], field); err != nil {
			return err
		}
	}
	return nil
}

func listOf(n *yaml.Node, at string, most int, each func(n *yaml.Node, at string) error) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) > most {
		return wrong(n, at, fmt.Sprintf("must be a list of at most %d", most), "")
	}
	for i, c := range n.Content {
		if err := each(c, at+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

func words(n *yaml.Node, at, what string, known []string) (out []string, err error) {
	err = listOf(n, at, maxPlugins, func(n *yaml.Node, at string) error {
		w, err := word(n, at, what, known)
		if err == nil && slices.Contains(out, w) {
			err = wrong(n, at, what+" "+w+" is there already", "remove one")
		}
		out = append(out, w)
		return err
	})
	return out, err
}

func word(n *yaml.Node, at, what string, known []string) (string, error) {
	if n.Kind != yaml.ScalarNode || !slices.Contains(known, n.Value) {
		return "", wrong(n, at, "there is no "+what+" "+quote(n.Value), suggest(n.Value, known))
	}
	return n.Value, nil
}

// suggest is the known word nearest to one, if it is near, else all of them.
func suggest(given string, known []string) string {
	best, least := "", max(1, min(3, len(given)/3))+1
	for _, k := range known {
		if d := distance(strings.ToLower(given), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return "one of " + strings.Join(known, ", ")
}

// distance counts insertions, deletions and replacements.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
