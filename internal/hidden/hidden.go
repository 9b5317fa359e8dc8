// Package hidden has values that do not show themselves.
package hidden

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Values are the values of secrets by name. They print as how many there are, whichever way they are printed; only JSON
// has them, which is written where they are sealed or handed out.
type Values map[string]string

// String implements fmt.Stringer.
func (v Values) String() string { return strconv.Itoa(len(v)) + " secrets" }

// Format implements fmt.Formatter, also for the verbs that would look into a map.
func (v Values) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.String())) }

// LogValue implements slog.LogValuer.
func (v Values) LogValue() slog.Value { return slog.StringValue(v.String()) }
