package aws

// SetPage sets the number of machines on a page of a list.
func SetPage(c *Cloud, n int32) { c.page = n }
