package apitypes

// Bought is the amount of bought machines that an attempt or a queue has. Machines of pools do not count. A machine
// that tasks of a job share counts once.
type Bought struct {
	Machines   int     `json:"machines,omitempty"`
	USDPerHour float64 `json:"usdPerHour,omitempty"` // their maximum price: for spot machines, the bid
}

// Plus returns b + by.
func (b Bought) Plus(by Bought) Bought {
	return Bought{b.Machines + by.Machines, b.USDPerHour + by.USDPerHour}
}

// Minus returns b - by. No part is below zero. If no machine remains, the price is zero too,
// without rounding errors.
func (b Bought) Minus(by Bought) Bought {
	if b.Machines <= by.Machines {
		return Bought{}
	}
	return Bought{b.Machines - by.Machines, max(b.USDPerHour-by.USDPerHour, 0)}
}
