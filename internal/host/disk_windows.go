package host

import "errors"

// diskSpace fails: a broker does not run on Windows.
func diskSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
