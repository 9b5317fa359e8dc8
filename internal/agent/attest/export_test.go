package attest

// PauseAfter is the pause after a failed try.
var PauseAfter = pauseAfter
