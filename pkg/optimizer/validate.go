package optimizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// More limits on a model, so that a malicious file or a wrong unit cannot exhaust memory or overflow a sum.
const (
	// MaxValue is the maximum USD, hours, GiB or kg in a model.
	MaxValue = 1e12
	// MaxModelBytes is the maximum size of the JSON text that ReadModel reads.
	MaxModelBytes = 1 << 30
)

// ModelError describes an error in a field of a [Model]. Use errors.As to detect it.
type ModelError struct {
	// Field is the path to the value, such as "tasks[3].candidates[0].usd"; empty means the whole model.
	Field string
	// Reason is a description of the error.
	Reason string
	err    error
}

// Error returns a message with the field and the reason.
func (e *ModelError) Error() string {
	if e.Field == "" {
		return "model: " + e.Reason
	}
	return "model: " + e.Field + ": " + e.Reason
}

// Unwrap returns the underlying JSON syntax error, or nil.
func (e *ModelError) Unwrap() error { return e.err }

func modelErrorf(field, format string, args ...any) *ModelError {
	return &ModelError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// Validate returns the first error in the model as a *[ModelError], or nil. A task without candidates is valid: it
// makes the model infeasible, but not malformed.
func (m *Model) Validate() error {
	if err := m.check(); err != nil {
		return err
	}
	if err := m.checkCandidateIDs(); err != nil {
		return err
	}
	_, err := linkTasks(m)
	return err
}

// check tests everything that Solve relies on, except the shape of the graph, which linkTasks tests. Only Validate
// tests that candidate ids are unique, because only readers of Solution.Choice need this and the test takes longer
// than some solves.
func (m *Model) check() error {
	if !slices.Contains([]Objective{Cost, Makespan, Carbon, Weighted}, m.Objective) {
		return modelErrorf("objective", "%q is neither %q nor %q nor %q nor %q", clip(string(m.Objective)), Cost,
			Makespan, Carbon, Weighted)
	}
	if err := m.checkWeights(); err != nil {
		return err
	}
	if err := m.checkBounds(); err != nil {
		return err
	}
	if err := m.checkPlaces(); err != nil {
		return err
	}
	if err := m.checkTasks(); err != nil {
		return err
	}
	return cmp.Or(m.checkTogether(), m.checkSpread())
}

func (m *Model) checkBounds() error {
	for _, b := range []struct {
		field string
		value *float64
	}{{"deadlineHours", m.DeadlineHours}, {"budgetUSD", m.BudgetUSD}, {"carbonCapKg", m.CarbonCapKg}} {
		if b.value == nil {
			continue
		}
		if why := badNumber(*b.value); why != "" {
			return modelErrorf(b.field, "%s", why)
		}
	}
	return nil
}

func (m *Model) checkPlaces() error {
	n := len(m.Places)
	if n > text.MaxPlaces {
		return modelErrorf("places", "%d places, more than %d", n, text.MaxPlaces)
	}
	seen := make(map[string]int, n)
	for i, p := range m.Places {
		if p == "" {
			return modelErrorf(indexed("places", i), "is empty")
		}
		if j, dup := seen[p]; dup {
			return modelErrorf(indexed("places", i), "%q is already places[%d]", clip(p), j)
		}
		seen[p] = i
	}
	if err := checkMatrix("usdPerGiB", m.USDPerGiB, n); err != nil {
		return err
	}
	return checkMatrix("hoursPerGiB", m.HoursPerGiB, n)
}

func checkMatrix(name string, rows [][]float64, n int) error {
	if len(rows) != n {
		return modelErrorf(name, "has %d rows for %d places", len(rows), n)
	}
	for i, row := range rows {
		if len(row) != n {
			return modelErrorf(indexed(name, i), "has %d columns for %d places", len(row), n)
		}
		for j, x := range row {
			if !(x >= 0 && x <= MaxValue) {
				return modelErrorf(indexed(indexed(name, i), j), "%s", badNumber(x))
			}
		}
	}
	return nil
}

func (m *Model) checkTasks() error {
	if len(m.Tasks) > text.MaxTasks {
		return modelErrorf("tasks", "%d tasks, more than %d", len(m.Tasks), text.MaxTasks)
	}
	total := 0
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if t.ID == "" {
			return modelErrorf(indexed("tasks", i)+".id", "is empty")
		}
		total += len(t.Candidates)
		if total > text.MaxCandidates {
			return modelErrorf("tasks", "more than %d candidates", text.MaxCandidates)
		}
		for k := range t.Candidates {
			if field, why := m.badCandidate(&t.Candidates[k]); why != "" {
				return modelErrorf(indexed(indexed("tasks", i)+".candidates", k)+"."+field, "%s", why)
			}
		}
	}
	return nil
}

// badCandidate returns the first bad field of c and a description of the error, or "".
func (m *Model) badCandidate(c *Candidate) (field, why string) {
	switch {
	case c.Place < 0 || c.Place >= len(m.Places):
		return "place", fmt.Sprintf("%d is not an index into the %d places", c.Place, len(m.Places))
	case !(c.USD >= 0 && c.USD <= MaxValue):
		return "usd", badNumber(c.USD)
	case !(c.Hours >= 0 && c.Hours <= MaxValue):
		return "hours", badNumber(c.Hours)
	case !(c.KgCO2 >= 0 && c.KgCO2 <= MaxValue):
		return "kgCO2", badNumber(c.KgCO2)
	}
	return "", ""
}

func (m *Model) checkCandidateIDs() error {
	var ids []string
	for i := range m.Tasks {
		cands := m.Tasks[i].Candidates
		ids = ids[:0]
		for k := range cands {
			if cands[k].ID == "" {
				return modelErrorf(indexed(indexed("tasks", i)+".candidates", k)+".id", "is empty")
			}
			ids = append(ids, cands[k].ID)
		}
		slices.Sort(ids)
		for k := 1; k < len(ids); k++ {
			if ids[k] == ids[k-1] {
				return duplicateCandidate(i, cands, ids[k])
			}
		}
	}
	return nil
}

// duplicateCandidate returns an error for the second candidate with the id.
func duplicateCandidate(task int, cands []Candidate, id string) error {
	first := slices.IndexFunc(cands, func(c Candidate) bool { return c.ID == id })
	second := first + 1 + slices.IndexFunc(cands[first+1:], func(c Candidate) bool { return c.ID == id })
	return modelErrorf(indexed(indexed("tasks", task)+".candidates", second)+".id",
		"%q is already candidates[%d]", clip(id), first)
}

// checkWeights tests the weights of the objective.
func (m *Model) checkWeights() error {
	switch w := m.Weights; {
	case w == nil && m.Objective == Weighted:
		return modelErrorf("weights", "is missing for the objective %q", Weighted)
	case w == nil:
		return nil
	case m.Objective != Weighted:
		return modelErrorf("weights", "is only for the objective %q", Weighted)
	case badNumber(w.USD) != "":
		return modelErrorf("weights.usd", "%s", badNumber(w.USD))
	case badNumber(w.Hours) != "":
		return modelErrorf("weights.hours", "%s", badNumber(w.Hours))
	case w.USD == 0 && w.Hours == 0:
		return modelErrorf("weights", "are all 0")
	}
	return nil
}

// badNumber describes why x is not a quantity from 0 to MaxValue; it returns "" if it is.
func badNumber(x float64) string {
	switch {
	case math.IsNaN(x):
		return "is not a number"
	case math.IsInf(x, 0):
		return "is infinite"
	case x < 0:
		return fmt.Sprintf("%g is negative", x)
	case x > MaxValue:
		return fmt.Sprintf("%g is over %g", x, MaxValue)
	}
	return ""
}

func clip(s string) string { return strict.Clip(s) }
