/** Simple responses of origins. */

/** A complete response with the content `ok`. */
export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** A complete response without content. */
export const OK_EMPTY = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'

/** Only the status line, to which fields and content are appended. */
export const OK_LINE = 'HTTP/1.1 200 OK\r\n'
