package why

import "strings"

// heads finds words in a text by their first bytes, all words at once: a log has many megabytes.
type heads struct {
	begins [1 << 16]bool // hashes of the words' first bytes
	byHead map[[headSize]byte][]string
}

// headSize is the number of bytes of a word that heads knows, the shortest word's.
const headSize = 4

// newHeads returns the heads of words.
func newHeads(words ...string) *heads {
	h := &heads{byHead: map[[headSize]byte][]string{}}
	for _, word := range words {
		h.add(word, word)
	}
	return h
}

// add adds a word, of which only a start is looked for, which may be shorter than the word's head.
func (h *heads) add(word, start string) {
	head := [headSize]byte([]byte(word))
	h.begins[hash(word, 0)] = true
	h.byHead[head] = append(h.byHead[head], start)
}

// mayBegin reports whether a word may begin at a place of a text that has a head's bytes from
// there.
func (h *heads) mayBegin(text string, at int) bool { return h.begins[hash(text, at)] }

// isIn reports whether a text has one of the words.
func (h *heads) isIn(text string) bool {
	for at := 0; at+headSize <= len(text); at++ {
		if !h.mayBegin(text, at) {
			continue
		}
		for _, word := range h.byHead[[headSize]byte([]byte(text[at:at+headSize]))] {
			if strings.HasPrefix(text[at:], word) {
				return true
			}
		}
	}

	return false
}

// hash returns a hash of the bytes of a text from a place on.
func hash(text string, at int) uint16 {
	word := uint32(text[at]) | uint32(text[at+1])<<8 | uint32(text[at+2])<<16 | uint32(text[at+
		3])<<24
	return uint16(word * 2654435761 >> 16) // Knuth, The Art of Computer Programming 3, 6.4
}
