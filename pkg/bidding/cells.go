package bidding

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
)

// Cells are the prices that a table keeps, USD per hour. As JSON they are text, eight hexadecimal digits for each, an
// IEEE 754 number of 32 bits. A plan of a hundred tasks has some 80,000, which are written and read in a tenth of the
// time that numbers take, and are no longer when compressed. A list of numbers is read, too.
type Cells []float32

// cellDigits is how many digits one has.
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
		return fmt.Errorf("%w: %d digits are no prices", ErrModel, len(digits))
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
