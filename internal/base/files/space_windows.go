package files

import "errors"

// Space fails: neither a broker nor an agent runs on Windows.
func Space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
