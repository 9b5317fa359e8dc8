package optimizer

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// ReadModel reads and validates one [Model] in its JSON form. It is strict: unknown, repeated and missing fields,
// trailing text, and everything that [Model.Validate] rejects give a *[ModelError] with the name of the field. Only
// these fields are optional: "deadlineHours", "budgetUSD" and "carbonCapKg" may be omitted or null; a candidate's
// "kgCO2", "site" and "zone" and the lists "together" and "spread" may be omitted. A null list is empty. Memory use
// is a small multiple of the size of the text, which is at most [MaxModelBytes]. Errors of r are returned wrapped.
func ReadModel(r io.Reader) (*Model, error) {
	limited := &io.LimitedReader{R: r, N: MaxModelBytes}
	p := parser{strict.New(limited)}
	m, err := p.model()
	if err == nil {
		err = p.End()
	}
	var wrong *strict.Error
	switch {
	case err == nil:
	case limited.N <= 0:
		return nil, modelErrorf("", "is larger than %d bytes", int64(MaxModelBytes))
	case errors.As(err, &wrong):
		return nil, &ModelError{wrong.Field, wrong.Reason, wrong.Err}
	default:
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// parser parses the values of a model.
type parser struct{ strict.Reader }

func (p parser) model() (*Model, error) {
	m := &Model{Places: []string{}}
	err := p.Object([]strict.Field{
		strict.Required("objective", func() error { return p.Text((*string)(&m.Objective)) }),
		strict.Optional("weights", func() error {
			m.Weights = &Weights{}
			return p.Object([]strict.Field{
				strict.Required("usd", func() error { return p.number(&m.Weights.USD) }),
				strict.Required("hours", func() error { return p.number(&m.Weights.Hours) }),
			})
		}),
		strict.Optional("deadlineHours", func() error { return p.optional(&m.DeadlineHours) }),
		strict.Optional("budgetUSD", func() error { return p.optional(&m.BudgetUSD) }),
		strict.Optional("carbonCapKg", func() error { return p.optional(&m.CarbonCapKg) }),
		strict.Required("places", func() error { return p.Texts(text.MaxPlaces, &m.Places) }),
		strict.Required("usdPerGiB", func() error { return p.matrix(&m.USDPerGiB) }),
		strict.Required("hoursPerGiB", func() error { return p.matrix(&m.HoursPerGiB) }),
		strict.Required("tasks", func() error { return p.tasks(m) }),
		strict.Required("edges", func() error { return p.edges(m) }),
		strict.Optional("together", func() error { return p.together(m) }),
		strict.Optional("spread", func() error { return p.spread(m) }),
	})
	return m, err
}

func (p parser) matrix(rows *[][]float64) error {
	*rows = [][]float64{}
	return p.List(text.MaxPlaces, func() error {
		var row []float64
		err := p.List(text.MaxPlaces, func() error {
			var x float64
			err := p.number(&x)
			row = append(row, x)
			return err
		})
		*rows = append(*rows, row)
		return err
	})
}

func (p parser) tasks(m *Model) error {
	m.Tasks = []Task{}
	var t Task
	var c Candidate
	total := 0
	candidate := []strict.Field{
		strict.Required("id", func() error { return p.Text(&c.ID) }),
		strict.Required("place", func() error { return p.index(&c.Place) }),
		strict.Required("usd", func() error { return p.number(&c.USD) }),
		strict.Required("hours", func() error { return p.number(&c.Hours) }),
		strict.Optional("kgCO2", func() error { return p.number(&c.KgCO2) }),
		strict.Optional("site", func() error { return p.Text(&c.Site) }),
		strict.Optional("zone", func() error { return p.Text(&c.Zone) }),
	}
	task := []strict.Field{
		strict.Required("id", func() error { return p.Text(&t.ID) }),
		strict.Required("candidates", func() error {
			t.Candidates = []Candidate{}
			return p.List(text.MaxCandidates-total, func() error {
				c = Candidate{}
				err := p.Object(candidate)
				t.Candidates = append(t.Candidates, c)
				total++
				return err
			})
		}),
	}
	return p.List(text.MaxTasks, func() error {
		t = Task{}
		err := p.Object(task)
		m.Tasks = append(m.Tasks, t)
		return err
	})
}

func (p parser) edges(m *Model) error {
	m.Edges = []Edge{}
	var e Edge
	edge := []strict.Field{
		strict.Required("from", func() error { return p.Text(&e.From) }),
		strict.Required("to", func() error { return p.Text(&e.To) }),
		strict.Required("gib", func() error { return p.number(&e.GiB) }),
	}
	return p.List(text.MaxEdges, func() error {
		e = Edge{}
		err := p.Object(edge)
		m.Edges = append(m.Edges, e)
		return err
	})
}

func (p parser) together(m *Model) error {
	return p.List(text.MaxTasks, func() error {
		var group []string
		err := p.Texts(text.MaxTasks, &group)
		m.Together = append(m.Together, group)
		return err
	})
}

func (p parser) spread(m *Model) error {
	var g Spread
	group := []strict.Field{
		strict.Required("tasks", func() error { return p.Texts(text.MaxTasks, &g.Tasks) }),
		strict.Optional("machines", func() error {
			return p.List(text.MaxTasks, func() error {
				var n int
				err := p.count(&n)
				g.Machines = append(g.Machines, n)
				return err
			})
		}),
		strict.Required("by", func() error { return p.Text((*string)(&g.By)) }),
		strict.Required("most", func() error { return p.count(&g.Most) }),
	}
	return p.List(text.MaxTasks, func() error {
		g = Spread{}
		err := p.Object(group)
		m.Spread = append(m.Spread, g)
		return err
	})
}

// number parses a quantity.
func (p parser) number(x *float64) error {
	if err := p.Number(x); err != nil {
		return err
	}
	if why := badNumber(*x); why != "" {
		return p.Errorf("%s", why)
	}
	return nil
}

// index parses an index into the places.
func (p parser) index(i *int) error { return p.whole(i, text.MaxPlaces-1, "an index into the places") }

// count parses a number of machines.
func (p parser) count(n *int) error { return p.whole(n, text.MaxTasks, "a number of machines") }

func (p parser) whole(n *int, most float64, what string) error {
	var x float64
	if err := p.number(&x); err != nil {
		return err
	}
	if x != math.Trunc(x) || x > most {
		return p.Errorf("%g is not %s", x, what)
	}
	*n = int(x)
	return nil
}

func (p parser) optional(x **float64) error {
	if null, err := p.Null(); null {
		return err
	}
	*x = new(float64)
	return p.number(*x)
}
