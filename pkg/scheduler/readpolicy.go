package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
)

// Limits of a policy file.
const (
	maxBytes   = 64 << 10
	maxTiers   = 16
	maxPlugins = 64
	maxArgs    = 256
)

// readPolicy reads a policy from YAML. All names in it must be known:
//
//	actions: [enqueue, allocate, preempt, reclaim, backfill, reserve]
//	tiers:
//	  - [priority, gang]
//	  - - drf
//	    - name: binpack
//	      disable: [nodeOrder]
//	      args: {weight: 2, resources: {gpu: 5}}
//
// Errors are an *PolicyError with line and field. The file name is used only in errors.
func readPolicy(file string, data []byte, known *vocabulary) (*Policy, error) {
	p, err := parsePolicy(data, known)
	return p, PolicyInFile(file, err)
}

func parsePolicy(data []byte, known *vocabulary) (*Policy, error) {
	if len(data) > maxBytes {
		return nil, fault.New(fmt.Sprintf("it is larger than %d bytes", maxBytes), "")
	}
	docs, from, err := yamlfile.Decode(data)
	if err != nil {
		return nil, err
	}
	if len(docs) > 1 {
		return nil, from.Fault(docs[1], "there is a second document", "a policy is a single document")
	}
	r := &policyReader{Reader: from, policy: &Policy{where: map[string]fault.Position{}}, lines: map[string]int{},
		known: known}
	err = yamlfile.ReadFields(&r.Reader, docs[0], yamlfile.Fields[*Policy]{
		"actions": func(p *Policy, n *yaml.Node) (err error) {
			p.where["actions"] = yamlfile.PositionOf(n)
			p.Actions, err = r.words(n, "action", known.Actions)
			return err
		},
		"tiers": func(_ *Policy, n *yaml.Node) error { return r.bounded(n, maxTiers, r.readTier) },
	}, r.policy)
	switch {
	case err != nil:
		return nil, err
	case len(r.policy.Actions) == 0:
		return nil, fault.Within(
			"actions",
			r.Fault(docs[0], "is missing", "one or more of "+strings.Join(known.Actions, ", ")),
		)
	case len(r.policy.Tiers) == 0:
		return nil, fault.Within(
			"tiers",
			r.Fault(docs[0], "is missing", "lists of plugins: "+strings.Join(r.known.Plugins, ", ")),
		)
	}
	return r.policy, nil
}

// policyReader reads the one document of a policy file.
type policyReader struct {
	yamlfile.Reader
	policy *Policy
	lines  map[string]int // line of each plugin
	known  *vocabulary
}

func (r *policyReader) readTier(i int, n *yaml.Node) error {
	r.policy.Tiers = append(r.policy.Tiers, nil)
	return r.bounded(n, maxPlugins, func(k int, n *yaml.Node) error {
		conf, err := r.readPlugin(n)
		if err != nil {
			return err
		}
		if line := r.lines[conf.Name]; line > 0 {
			return r.Fault(n, fmt.Sprintf("plugin %s is already in line %d", conf.Name, line), "remove one")
		}
		r.lines[conf.Name] = n.Line
		r.policy.where[fmt.Sprintf("tiers[%d][%d]", i, k)] = yamlfile.PositionOf(n)
		r.policy.Tiers[i] = append(r.policy.Tiers[i], conf)
		return nil
	})
}

// readPlugin reads a plugin, which is a name or a mapping.
func (r *policyReader) readPlugin(n *yaml.Node) (conf PluginConfig, err error) {
	if n.Kind == yaml.ScalarNode {
		conf.Name, err = r.word(n, "plugin", r.known.Plugins)
		return conf, err
	}
	var args *yaml.Node
	err = yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*PluginConfig]{
		"name": func(c *PluginConfig, n *yaml.Node) (err error) {
			c.Name, err = r.word(n, "plugin", r.known.Plugins)
			return err
		},
		"disable": func(c *PluginConfig, n *yaml.Node) (err error) {
			c.Disable, err = r.words(n, "function", r.known.Functions)
			return err
		},
		"args": func(_ *PluginConfig, n *yaml.Node) error {
			args = n
			return nil
		},
	}, &conf)
	switch {
	case err != nil:
		return conf, err
	case conf.Name == "":
		return conf, fault.Within("name", r.Fault(n, "is missing", "one of "+strings.Join(r.known.Plugins, ", ")))
	case args == nil:
		return conf, nil
	}
	conf.Args, err = r.readArgs(args, conf.Name)
	return conf, fault.Within("args", err)
}

func (r *policyReader) readArgs(n *yaml.Node, plugin string) (Args, error) {
	known := yamlfile.Fields[Args]{}
	for name, kind := range r.known.Settings[plugin] {
		known[name] = func(out Args, n *yaml.Node) (err error) {
			switch kind {
			case numberSetting:
				out[name], err = r.number(n)
			case durationSetting:
				out[name], err = r.duration(n)
			case numbersSetting:
				out[name], err = mapOf(r, n, r.number)
			case windowsSetting:
				out[name], err = mapOf(r, n, r.window)
			}
			return err
		}
	}
	if len(known) == 0 && n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		return nil, r.Fault(n, "plugin "+plugin+" has no settings", "remove them")
	}
	out := Args{}
	return out, yamlfile.ReadFields(&r.Reader, n, known, out)
}

// window reads {from: "22:00", to: "06:00", zone: Europe/Berlin}.
func (r *policyReader) window(n *yaml.Node) (w Window, err error) {
	w.Zone = time.UTC
	given := map[string]bool{}
	clock := func(field string, to func(*Window) *time.Duration) func(*Window, *yaml.Node) error {
		return yamlfile.TextField(&r.Reader, to, func(s string) (time.Duration, error) {
			given[field] = true
			t, err := time.Parse("15:04", s)
			if err != nil {
				return 0, fault.New(fault.Quote(s)+" is not a time of day", `write it as "22:00"`)
			}
			return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
		})
	}
	err = yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*Window]{
		"from": clock("from", func(w *Window) *time.Duration { return &w.From }),
		"to":   clock("to", func(w *Window) *time.Duration { return &w.To }),
		"zone": yamlfile.TextField(
			&r.Reader,
			func(w *Window) **time.Location { return &w.Zone },
			func(s string) (*time.Location, error) {
				zone, err := time.LoadLocation(s)
				if err != nil || s == "Local" {
					return nil, fault.New(fault.Quote(s)+" is not a time zone", "write it as UTC or Europe/Berlin")
				}
				return zone, nil
			},
		),
	}, &w)
	switch {
	case err != nil:
		return w, err
	case !given["from"]:
		return w, fault.Within("from", r.Fault(n, "is missing", `a time of day: "22:00"`))
	case !given["to"]:
		return w, fault.Within("to", r.Fault(n, "is missing", `a time of day: "06:00"`))
	}
	return w, nil
}

func (r *policyReader) number(n *yaml.Node) (float64, error) {
	s, err := r.Text(n)
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(math.Abs(x) <= 1e6) { // also rejects NaN
		return 0, r.Fault(n, fault.Quote(s)+" is not a number", "at most a million")
	}
	return x, nil
}

func (r *policyReader) duration(n *yaml.Node) (time.Duration, error) {
	s, err := r.Text(n)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, r.Fault(n, fault.Quote(s)+" is not a duration", "write it as 30m or 24h")
	}
	return d, nil
}

func mapOf[T any](r *policyReader, n *yaml.Node, read func(*yaml.Node) (T, error)) (map[string]T, error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxArgs {
		return nil, r.Fault(n, "must be a mapping of at most "+strconv.Itoa(maxArgs)+" names", "")
	}
	out := make(map[string]T, len(entries))
	for _, e := range entries {
		if out[e.Key], err = read(e.Node); err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	return out, nil
}

// bounded reads a list. most is the maximum number of entries.
func (r *policyReader) bounded(n *yaml.Node, most int, each func(i int, n *yaml.Node) error) error {
	if n.Kind == yaml.SequenceNode && len(n.Content) > most {
		return r.Fault(n, fmt.Sprintf("must be a list of at most %d", most), "")
	}
	return r.List(n, each)
}

func (r *policyReader) words(n *yaml.Node, what string, known []string) (out []string, err error) {
	err = r.bounded(n, maxPlugins, func(_ int, n *yaml.Node) error {
		w, err := r.word(n, what, known)
		if err == nil && slices.Contains(out, w) {
			err = r.Fault(n, what+" "+w+" is listed twice", "remove one")
		}
		out = append(out, w)
		return err
	})
	return out, err
}

func (r *policyReader) word(n *yaml.Node, what string, known []string) (string, error) {
	s, err := r.Text(n)
	if err == nil && !slices.Contains(known, s) {
		err = r.Fault(n, "unknown "+what+" "+fault.Quote(s), fault.OneOf(s, known))
	}
	return s, err
}
