package wire

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Secrets are the values of a task's secrets by name. Like dag.SecretValues they print as how many there are; only JSON
// has them.
type Secrets map[string]string

// String implements fmt.Stringer.
func (s Secrets) String() string { return strconv.Itoa(len(s)) + " secrets" }

// Format implements fmt.Formatter, also for the verbs that would look into a map.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }
