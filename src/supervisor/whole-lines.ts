/**
 * What workers write goes on in whole lines: of two who write to one place, neither may stand in the middle of the
 * other's line. What is of several lines stays together.
 */
import type { Readable } from 'node:stream'

const LINE_FEED = 0x0a
/** No line of a log comes near it; what is longer is passed on in parts, rather than kept. */
const MAX_LINE_BYTES = 1024 * 1024

/**
 * @param write gets whole lines, one or more, with their line ends; a last line without one gets it
 */
export function passWholeLines(stream: Readable, write: (lines: string) => void): void {
  let rest: Buffer[] = []
  let restBytes = 0
  const pass = (...last: Buffer[]): void => {
    const text = Buffer.concat([...rest, ...last]).toString('utf8')
    rest = []
    restBytes = 0
    if (text !== '') write(text.endsWith('\n') ? text : `${text}\n`)
  }
  stream.on('data', (chunk: Buffer) => {
    const end = chunk.lastIndexOf(LINE_FEED) + 1
    if (end > 0) pass(chunk.subarray(0, end))
    if (end === chunk.length) return
    rest.push(chunk.subarray(end))
    restBytes += chunk.length - end
    if (restBytes > MAX_LINE_BYTES) pass()
  })
  stream.on('end', () => pass())
  // Its end is all that there is to know.
  stream.on('error', () => {})
}
