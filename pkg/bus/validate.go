package bus

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Validate reports whether every driver accepts m: it returns nil, or ErrInvalid or
// ErrTooLarge with detail.
func (m *Message) Validate() error {
	if m.ID == "" || m.Type == "" {
		return fmt.Errorf("%w: a message needs an ID and a type (ID %q, type %q)", ErrInvalid, m.ID, m.Type)
	}
	for _, a := range [...]struct{ name, value string }{{"ID", m.ID}, {"type", m.Type}, {"group", m.Group}} {
		if len(a.value) > MaxAttributeBytes {
			return fmt.Errorf("%w: %s has %d bytes; the maximum is %d", ErrTooLarge, a.name, len(a.value),
				MaxAttributeBytes)
		}
		if !utf8.ValidString(a.value) {
			return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, a.name, a.value)
		}
	}
	if len(m.Body) > MaxMessageBytes {
		return fmt.Errorf("%w: %q has %d bytes; the maximum is %d", ErrTooLarge, m.ID, len(m.Body), MaxMessageBytes)
	}
	return nil
}

// Validate reports whether the queue's rules are valid: it returns nil or ErrInvalid.
func (c QueueConfig) Validate() error {
	switch {
	case c.Name == "" || len(c.Name) > 80 || !utf8.ValidString(c.Name): // SQS: 80 characters
		return fmt.Errorf("%w: queue name %q", ErrInvalid, c.Name)
	case c.Visibility <= 0:
		return fmt.Errorf("%w: the visibility time-out of queue %q is %v", ErrInvalid, c.Name, c.Visibility)
	case c.MaxAttempts < 1:
		return fmt.Errorf("%w: queue %q allows %d attempts", ErrInvalid, c.Name, c.MaxAttempts)
	case c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin:
		return fmt.Errorf("%w: queue %q backs off from %v to %v", ErrInvalid, c.Name, c.BackoffMin, c.BackoffMax)
	}
	return nil
}

// Backoff returns how long a message waits after delivery number attempt failed:
// BackoffMin doubled attempt-1 times, at most BackoffMax.
func (c QueueConfig) Backoff(attempt int) time.Duration {
	d := c.BackoffMin
	for i := 1; i < attempt && d > 0; i++ {
		if d > c.BackoffMax/2 { // doubling would exceed the bound, or overflow
			return c.BackoffMax
		}
		d *= 2
	}
	return d
}

// ValidateRoute reports whether all queues are valid and every route leads to one
// of them: it returns nil, ErrInvalid or ErrUnknownQueue.
func ValidateRoute(route Route, queues []QueueConfig) error {
	known := make(map[string]bool, len(queues))
	for _, q := range queues {
		if err := q.Validate(); err != nil {
			return err
		}
		if known[q.Name] {
			return fmt.Errorf("%w: duplicate queue %q", ErrInvalid, q.Name)
		}
		known[q.Name] = true
	}
	for typ, names := range route {
		seen := make(map[string]bool, len(names))
		for _, name := range names {
			if !known[name] {
				return fmt.Errorf("%w: no queue %q, but type %q routes to it", ErrUnknownQueue, name, typ)
			}
			if seen[name] {
				return fmt.Errorf("%w: type %q routes to %q twice", ErrInvalid, typ, name)
			}
			seen[name] = true
		}
	}
	return nil
}

// TrimReason returns reason cut to at most MaxReasonBytes of valid UTF-8, as dead letters store it.
func TrimReason(reason string) string {
	if len(reason) > MaxReasonBytes {
		reason = reason[:MaxReasonBytes]
	}
	return strings.ToValidUTF8(reason, "")
}
