package baseline

import (
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// FirstFit is first-fit decreasing: largest apps first, each instance on the first machine with room.
func FirstFit(p *placement.Problem) placement.Assignment {
	c := newCluster(p)
	for _, a := range c.decreasing() {
		k := 0
		for _, i := range c.instancesOf[a] {
			for k < len(c.machines) && !c.fits(k, a) {
				k++
			}
			if k == len(c.machines) {
				break
			}
			c.put(k, i)
		}
	}
	return c.at
}

// BestFit is best-fit decreasing. It takes the largest apps first, and places each instance on a used machine with
// enough room: the one whose largest free share of a resource is the smallest. It opens a new machine if none has
// enough room.
func BestFit(p *placement.Problem) placement.Assignment {
	c := newCluster(p)
	used := 0
	for _, a := range c.decreasing() {
		for _, i := range c.instancesOf[a] {
			best, least := -1, 0.0
			for k := range used {
				if !c.fits(k, a) {
					continue
				}
				if left := c.largest(c.freeOf(k)); best < 0 || left < least {
					best, least = k, left
				}
			}
			for best < 0 && used < len(c.machines) {
				if c.fits(used, a) {
					best = used
				}
				used++
			}
			if best < 0 {
				break
			}
			c.put(best, i)
		}
	}
	return c.at
}
