package setup

import "time"

// Hasten shortens the pauses of a setup; the returned function restores them.
func Hasten() (restore func()) {
	before := settlePause
	settlePause = time.Millisecond
	return func() { settlePause = before }
}
