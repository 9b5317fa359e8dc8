package local

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// ErrScenario means that a scenario file cannot be read. The message has the place in the file and the reason.
var ErrScenario = errors.New("bad scenario")

// maxScenarioBytes is the maximum size of a scenario file.
const maxScenarioBytes = 1 << 20

// Scenario is a Behaviour scripted in a file, for demonstrations and tests:
//
//	rules:
//	  - match: {cloud: aws, zone: use1-az1}     # shell patterns; a field that is left out matches everything
//	    until: 10m                              # from, until: virtual time since the broker first started
//	    fail: capacity                          # or {kind: quota, code: C, message: …, retryAfter: 30s}
//	  - match: {task: train, market: spot}
//	    nth: 1                                  # 1, 2-3 or 2+ of the matching launches
//	    preempt: {after: 40m, notice: 2m}       # after the launch; or at: 40m since the start; ranks: [0]
//	  - match: {cloud: gcp, labels: {queue: bulk}}
//	    delay: 30s                              # hang: true never returns; unseen: true starts the machines anyway
//
// Of the rules that match a launch, the first that decides its outcome applies; delays of the rules before it add up.
// For each machine of a successful launch, the first rule that preempts it applies. Prices of spot machines over time
// are under prices (see priceRule).
type Scenario struct {
	of     string // the file's digest
	rules  []rule
	prices []priceRule

	mu   sync.Mutex
	seen []int     // number of launches that each rule has matched
	last []ordinal // the launch that each rule matched last
}

// ordinal is the number of a cluster among the launches that a rule has matched.
type ordinal struct {
	cluster string
	n       int
}

// ReadScenario reads a scenario file. It fails with ErrScenario.
func ReadScenario(r io.Reader) (*Scenario, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxScenarioBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if len(b) > maxScenarioBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrScenario, maxScenarioBytes)
	}
	var file struct {
		Rules  []rule      `yaml:"rules"`
		Prices []priceRule `yaml:"prices"`
	}
	in := yaml.NewDecoder(strings.NewReader(string(b)))
	in.KnownFields(true)
	if err := in.Decode(&file); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: the file is empty", ErrScenario)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrScenario, yamlMessage(err))
	}
	for i := range file.Rules {
		if err := file.Rules[i].check(); err != nil {
			return nil, fmt.Errorf("%w: rule %d: %w", ErrScenario, i+1, err)
		}
	}
	for i := range file.Prices {
		if err := file.Prices[i].check(); err != nil {
			return nil, fmt.Errorf("%w: price %d: %w", ErrScenario, i+1, err)
		}
	}
	n := len(file.Rules)
	return &Scenario{
		of: fmt.Sprintf("%x", sha256.Sum256(b)), rules: file.Rules, prices: file.Prices,
		seen: make([]int, n), last: make([]ordinal, n),
	}, nil
}

var yamlNoise = regexp.MustCompile(
	`^yaml: (unmarshal errors:\s*)?| (in type|into) (\S*local\.\w+|struct \{.*\})|\s*\n\s*`)

// yamlMessage returns the library's error without the names of our types.
func yamlMessage(err error) string {
	return yamlNoise.ReplaceAllStringFunc(err.Error(), func(s string) string {
		if strings.HasPrefix(s, "\n") || strings.HasPrefix(s, " ") && strings.Contains(s, "\n") {
			return "; "
		}
		return ""
	})
}

// rule defines the fate of some launches.
type rule struct {
	Match  match    `yaml:"match"`
	From   duration `yaml:"from"`
	Until  duration `yaml:"until"` // 0 is no end
	Nth    nth      `yaml:"nth"`
	Fail   *failure `yaml:"fail"`
	Delay  duration `yaml:"delay"`
	Hang   bool     `yaml:"hang"`
	Unseen bool     `yaml:"unseen"`

	Preempt *preempt `yaml:"preempt"`
}

type preempt struct {
	After  duration `yaml:"after"`
	At     duration `yaml:"at"`
	Notice duration `yaml:"notice"`
	Ranks  []int    `yaml:"ranks"`
}

func (r *rule) check() error {
	switch acts := r.decides() || r.Delay > 0; {
	case !acts && r.Preempt == nil:
		return errors.New("does nothing: set fail, delay, hang, unseen or preempt")
	case acts && r.Preempt != nil:
		return errors.New("sets the launch's outcome and preempts its machines: write two rules")
	case r.Fail != nil && r.Hang && !r.Unseen:
		return errors.New("fails and hangs")
	case r.Until > 0 && r.Until <= r.From:
		return errors.New("never applies: until is not after from")
	case r.Preempt != nil && (r.Preempt.At > 0) == (r.Preempt.After > 0):
		return errors.New("preempt needs one of after and at")
	}
	return r.Match.check()
}

// decides reports whether the rule decides the outcome of a launch.
func (r *rule) decides() bool { return r.Fail != nil || r.Hang || r.Unseen }

// Launch applies the first rule that decides.
func (s *Scenario) Launch(r Request) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v Verdict
	for i := range s.rules {
		rule := &s.rules[i]
		if rule.Preempt != nil || !s.applies(i, r) {
			continue
		}
		v.Delay += time.Duration(rule.Delay)
		if rule.decides() {
			v.Hang, v.Unseen = rule.Hang, rule.Unseen
			if rule.Fail != nil {
				v.Err = rule.Fail.error(r.Offer)
			}
			return v
		}
	}
	return v
}

// Preemption applies the first rule that preempts.
func (s *Scenario) Preemption(r Request, rank int) (Preemption, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rules {
		p := s.rules[i].Preempt
		if p == nil || !s.applies(i, r) || len(p.Ranks) > 0 && !slices.Contains(p.Ranks, rank) {
			continue
		}
		at := r.Now.Add(time.Duration(p.After))
		if p.At > 0 {
			at = r.Now.Add(max(time.Duration(p.At)-r.Since, 0))
		}
		notice := time.Duration(p.Notice)
		if notice <= 0 {
			notice = DefaultNotice
		}
		return Preemption{At: at, Notice: notice}, true
	}
	return Preemption{}, false
}

// applies reports whether rule i applies to r, and counts r's cluster once. The caller holds s.mu.
func (s *Scenario) applies(i int, r Request) bool {
	rule := &s.rules[i]
	if r.Since < time.Duration(rule.From) || rule.Until > 0 && r.Since >= time.Duration(rule.Until) ||
		!rule.Match.holds(r) {
		return false
	}
	// Launch is called once for a launch, but Preemption once for each of its machines: those count as one launch.
	if rule.Preempt == nil || s.last[i].cluster != r.Cluster {
		s.seen[i]++
		s.last[i] = ordinal{r.Cluster, s.seen[i]}
	}
	return rule.Nth.holds(s.last[i].n)
}

// memory is the saved state of a scenario: the number of matches of each of its rules.
type memory struct {
	Of   string `json:"of"` // the file's digest
	Seen []int  `json:"seen"`
}

// Save returns how often each rule has matched.
func (s *Scenario) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(memory{s.of, s.seen})
}

// Restore restores the counts that Save returned for the same scenario.
func (s *Scenario) Restore(b []byte) error {
	var m memory
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("local: scenario: %w", err)
	}
	if m.Of != s.of || len(m.Seen) != len(s.rules) {
		return errors.New("local: scenario: the saved state is from another scenario")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = m.Seen
	return nil
}

// match selects launches. Values are shell patterns; an empty one matches everything.
type match struct {
	Cloud        string            `yaml:"cloud"`
	Region       string            `yaml:"region"`
	Zone         string            `yaml:"zone"`
	InstanceType string            `yaml:"instanceType"`
	Accelerator  string            `yaml:"accelerator"`
	Market       string            `yaml:"market"` // spot or on-demand
	Task         string            `yaml:"task"`   // the label "task"
	Labels       map[string]string `yaml:"labels"`
}

// pairs returns the patterns with the values that they must match.
func (m *match) pairs(r Request) [][2]string {
	market := "on-demand"
	if r.Offer.Spot {
		market = "spot"
	}
	pairs := [][2]string{
		{m.Cloud, r.Offer.Cloud}, {m.Region, r.Offer.Region}, {m.Zone, r.Offer.Zone},
		{m.InstanceType, r.Offer.InstanceType},
		{m.Accelerator, r.Offer.Accelerator}, {m.Market, market}, {m.Task, r.Labels["task"]},
	}
	for name, pattern := range m.Labels {
		pairs = append(pairs, [2]string{pattern, r.Labels[name]})
	}
	return pairs
}

func (m *match) holds(r Request) bool {
	for _, p := range m.pairs(r) {
		if ok, err := path.Match(p[0], p[1]); p[0] != "" && (!ok || err != nil) {
			return false
		}
	}
	return true
}

func (m *match) check() error {
	for _, p := range m.pairs(Request{}) {
		if _, err := path.Match(p[0], ""); err != nil {
			return fmt.Errorf("match: pattern %q: %w", p[0], err)
		}
	}
	if m.Market != "" && m.Market != "spot" && m.Market != "on-demand" {
		return fmt.Errorf("match: market is %q, want spot or on-demand", m.Market)
	}
	return nil
}

// failure states how a launch fails: it is a kind, or a mapping with more fields.
type failure struct {
	Kind       cloud.Kind `yaml:"kind"`
	Code       string     `yaml:"code"`
	Message    string     `yaml:"message"`
	RetryAfter duration   `yaml:"retryAfter"`
}

// UnmarshalYAML reads either form.
func (f *failure) UnmarshalYAML(n *yaml.Node) error {
	type plain failure
	if n.Kind == yaml.ScalarNode {
		f.Kind = cloud.Kind(n.Value)
	} else if err := decodeStrict(n, (*plain)(f), "kind", "code", "message", "retryAfter"); err != nil {
		return err
	}
	known := []cloud.Kind{cloud.Capacity, cloud.Quota, cloud.Auth, cloud.Throttled, cloud.Transient, cloud.Invalid}
	if !slices.Contains(known, f.Kind) {
		return fmt.Errorf("line %d: fail: kind is %q, want one of %v", n.Line, f.Kind, known)
	}
	return nil
}

// decodeStrict decodes a mapping that may have only the named fields; the library's own check does not cover custom
// types.
func decodeStrict(n *yaml.Node, to any, fields ...string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want a mapping", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if name := n.Content[i]; !slices.Contains(fields, name.Value) {
			return fmt.Errorf("line %d: field %s not found, want one of %v", name.Line, name.Value, fields)
		}
	}
	return n.Decode(to)
}

func (f *failure) error(o apitypes.Offer) *cloud.Error {
	e := &cloud.Error{Kind: f.Kind, Cloud: o.Cloud, Code: f.Code, Message: f.Message,
		RetryAfter: time.Duration(f.RetryAfter)}
	if f.Kind == cloud.Quota {
		e.Class = quotas.Regional(o)
	}
	if f.Kind == cloud.Capacity && f.Code == "" && f.Message == "" {
		return noCapacity(o).Err
	}
	if e.Message == "" {
		e.Message = "scripted failure"
	}
	return e
}

// duration is in Go's format: 90s, 10m, 1h30m.
type duration time.Duration

// UnmarshalYAML reads a non-negative duration.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is not a duration: write 90s, 10m or 1h30m", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// nth is a range of ordinals: "1", "2-3", "2+". The zero value means all launches.
type nth struct{ from, to int }

// UnmarshalYAML reads a range.
func (r *nth) UnmarshalYAML(n *yaml.Node) error {
	bad := fmt.Errorf("line %d: nth is %q: write 1, 2-3 or 2+", n.Line, n.Value)
	from, to, isRange := strings.Cut(n.Value, "-")
	from, open := strings.CutSuffix(from, "+")
	var err error
	if r.from, err = strconv.Atoi(from); err != nil || r.from < 1 || isRange && open {
		return bad
	}
	switch {
	case open:
		r.to = 0
	case isRange:
		if r.to, err = strconv.Atoi(to); err != nil || r.to < r.from {
			return bad
		}
	default:
		r.to = r.from
	}
	return nil
}

func (r nth) holds(n int) bool { return n >= r.from && (r.to == 0 || n <= r.to) }
