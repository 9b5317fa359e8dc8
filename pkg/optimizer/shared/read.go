package shared

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// ReadModel reads and validates one [Model] in its JSON form. It is strict: unknown, repeated and missing fields,
// trailing text, and everything that [Model.Validate] rejects give an *optimizer.ModelError with the name of the
// field. Only "deadlineHours", "budgetUSD" and "mostInstances" are
// optional; the first two may also be null. A null list is empty. Errors
// of r are returned wrapped.
func ReadModel(r io.Reader) (*Model, error) {
	limited := &io.LimitedReader{R: r, N: optimizer.MaxModelBytes}
	p := parser{strict.New(limited)}
	m, err := p.model()
	if err == nil {
		err = p.End()
	}
	var wrong *strict.Error
	switch {
	case err == nil:
	case limited.N <= 0:
		return nil, modelErrorf("", "is larger than %d bytes", int64(optimizer.MaxModelBytes))
	case errors.As(err, &wrong):
		return nil, &optimizer.ModelError{Field: wrong.Field, Reason: wrong.Reason}
	default:
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// IsModel reports whether a text is a model of the shared form: an object with the field "machines". It stops at that
// field, or at the first candidate of a task. It reports false for a text that is not JSON.
func IsModel(r io.Reader) bool {
	dec := jsontext.NewDecoder(io.LimitReader(r, optimizer.MaxModelBytes))
	if dec.PeekKind() != '{' {
		return false
	}
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		kind, members := dec.StackIndex(dec.StackDepth())
		if kind != '{' || members%2 == 0 || tok.Kind() != '"' {
			continue
		}
		switch name := tok.String(); {
		case dec.StackDepth() == 1 && name == "machines":
			return true
		case dec.StackDepth() == 3 && name == "candidates":
			return false
		}
	}
}

// parser parses the values of a model.
type parser struct{ strict.Reader }

func (p parser) model() (*Model, error) {
	m := &Model{Places: []string{}}
	err := p.Object([]strict.Field{
		strict.Required("objective", func() error { return p.Text((*string)(&m.Objective)) }),
		strict.Optional("deadlineHours", func() error { return p.optional(&m.DeadlineHours) }),
		strict.Optional("budgetUSD", func() error { return p.optional(&m.BudgetUSD) }),
		strict.Optional("mostInstances", func() error {
			return p.whole(&m.MostInstances, MaxMost, "a number of instances")
		}),
		strict.Required("places", func() error { return p.Texts(text.MaxPlaces, &m.Places) }),
		strict.Required("usdPerGiB", func() error { return p.matrix(&m.USDPerGiB) }),
		strict.Required("hoursPerGiB", func() error { return p.matrix(&m.HoursPerGiB) }),
		strict.Required("machines", func() error { return p.machines(m) }),
		strict.Required("tasks", func() error { return p.tasks(m) }),
		strict.Required("edges", func() error { return p.edges(m) }),
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

func (p parser) machines(m *Model) error {
	m.Machines = []Machine{}
	var k Machine
	fields := []strict.Field{
		strict.Required("id", func() error { return p.Text(&k.ID) }),
		strict.Required("place", func() error {
			return p.whole(&k.Place, text.MaxPlaces-1, "an index into the places")
		}),
		strict.Required("usdPerHour", func() error { return p.number(&k.USDPerHour) }),
		strict.Required("cpus", func() error { return p.number(&k.CPUs) }),
		strict.Required("memoryGiB", func() error { return p.number(&k.MemoryGiB) }),
		strict.Required("gpus", func() error { return p.number(&k.GPUs) }),
		strict.Required("speed", func() error { return p.number(&k.Speed) }),
		strict.Required("bootHours", func() error { return p.number(&k.BootHours) }),
		strict.Required("minimumHours", func() error { return p.number(&k.MinimumHours) }),
		strict.Required("incrementHours", func() error { return p.number(&k.IncrementHours) }),
		strict.Required("most", func() error { return p.whole(&k.Most, MaxMost, "a number of instances") }),
	}
	return p.List(MaxMachines, func() error {
		k = Machine{}
		err := p.Object(fields)
		m.Machines = append(m.Machines, k)
		return err
	})
}

func (p parser) tasks(m *Model) error {
	m.Tasks = []Task{}
	var t Task
	fields := []strict.Field{
		strict.Required("id", func() error { return p.Text(&t.ID) }),
		strict.Required("cpus", func() error { return p.number(&t.CPUs) }),
		strict.Required("memoryGiB", func() error { return p.number(&t.MemoryGiB) }),
		strict.Required("gpus", func() error { return p.number(&t.GPUs) }),
		strict.Required("hours", func() error { return p.number(&t.Hours) }),
	}
	return p.List(text.MaxTasks, func() error {
		t = Task{}
		err := p.Object(fields)
		m.Tasks = append(m.Tasks, t)
		return err
	})
}

func (p parser) edges(m *Model) error {
	m.Edges = []optimizer.Edge{}
	var e optimizer.Edge
	fields := []strict.Field{
		strict.Required("from", func() error { return p.Text(&e.From) }),
		strict.Required("to", func() error { return p.Text(&e.To) }),
		strict.Required("gib", func() error { return p.number(&e.GiB) }),
	}
	return p.List(text.MaxEdges, func() error {
		e = optimizer.Edge{}
		err := p.Object(fields)
		m.Edges = append(m.Edges, e)
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
