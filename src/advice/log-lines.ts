/** Lines out of a stream of bytes, however long it is: one line at a time, and none of more than a mebibyte. */

/** Characters; an event has a few hundred, and what is longer is no event. */
const MAX_LINE_LENGTH = 1024 * 1024

/**
 * Calls back for each line that is not empty.
 *
 * @param onLine gets the line without its end, or undefined for one that is too long
 * @throws what reading throws
 */
export async function readLogLines(
  chunks: AsyncIterable<Uint8Array>,
  onLine: (line: string | undefined) => void,
): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  let tooLong = false
  const take = (line: string): void => {
    if (tooLong || line.length > MAX_LINE_LENGTH) onLine(undefined)
    else if (line !== '' && line !== '\r') onLine(line)
    tooLong = false
  }
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
    if (rest.length <= MAX_LINE_LENGTH) continue
    tooLong = true
    rest = ''
  }
  take(rest + decoder.decode())
}
