package gcp

// SetPage makes the pages of lists shorter.
func SetPage(c *Cloud, n int64) { c.page = n }
