package bidding

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
)

// Cells are prices of a table, in USD per hour. Their JSON is a string with eight hexadecimal digits for each (an
// IEEE 754 number of 32 bits). The plan of a hundred tasks has some 80,000 cells; this form is written and read ten
// times faster than numbers and is no longer when compressed. UnmarshalJSON also accepts a list of numbers.
type Cells []float32

// cellDigits is the number of digits of a cell.
const cellDigits = 8

// MarshalJSON implements json.Marshaler.
func (c Cells) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, cellDigits*len(c)+2)
	text = append(text, '"')
	for _, usd := range c {
		var bits [4]byte
		binary.BigEndian.PutUint32(bits[:], math.Float32bits(usd))
		text = hex.AppendEncode(text, bits[:])
	}
	return append(text, '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cells) UnmarshalJSON(text []byte) error {
	if n := len(text); n < 2 || text[0] != '"' {
		return json.Unmarshal(text, (*[]float32)(c))
	}
	digits := text[1 : len(text)-1]
	if len(digits)%cellDigits != 0 {
		return fmt.Errorf("%w: %d digits are not a list of prices", ErrModel, len(digits))
	}
	bits := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(bits, digits); err != nil {
		return fmt.Errorf("%w: prices: %w", ErrModel, err)
	}
	*c = make(Cells, len(digits)/cellDigits)
	for i := range *c {
		(*c)[i] = math.Float32frombits(binary.BigEndian.Uint32(bits[4*i:]))
	}
	return nil
}
