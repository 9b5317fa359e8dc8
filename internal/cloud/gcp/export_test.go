package gcp

// SetPage sets the number of machines on a page of a list.
func SetPage(c *Cloud, n int64) { c.page = n }

// OfQuota adds the name of the exhausted quota to an error.
var OfQuota = ofQuota
