package gcp

// SetPage makes lists shorter than they need be.
func SetPage(c *Cloud, n int64) { c.page = n }
