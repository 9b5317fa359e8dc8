package aws

// SetPage makes lists shorter than they need be.
func SetPage(c *Cloud, n int32) { c.page = n }
