package setup

import "time"

// Now replaces the clock.
func (s *Setup) Now(now func() time.Time) { s.now = now }
