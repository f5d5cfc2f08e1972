/** Answers of origins that are about nothing in particular. */

/** A whole one, with `ok` for content. */
export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** A whole one without content. */
export const OK_EMPTY = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'

/** The status line alone, to which fields and content are added. */
export const OK_LINE = 'HTTP/1.1 200 OK\r\n'
