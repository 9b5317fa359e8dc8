//go:build !linux

package mount

const deviceName = "tradewind:"

func isMounted(string) (bool, error) { return false, ErrNoFUSE }

func mountsBelow(string, string) ([]string, error) { return nil, nil }

func helpers() []string { return nil }

func unmountCommand(...string) []string { return nil }

func fuseConfAllows(string) bool { return false }
