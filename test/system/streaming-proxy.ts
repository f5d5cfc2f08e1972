/** A proxy in a separate process, which reports its memory on request. */
import { createLogger, parseConfig, startProxy } from '../../src/index.js'

const loaded = parseConfig(`version: 1
listen: { proxy: ["127.0.0.1:0"], admin: false }
rules:
  local: { hosts: ["127.0.0.1"], ports: ["any"], addresses: ["127.0.0.1/32"] }
`)
const logger = createLogger('silent', { write: () => {} })
const proxy = await startProxy(loaded, { logger, startId: 'streaming' })
process.on('message', () => process.send?.(process.memoryUsage().rss))
process.on('disconnect', () => process.exit())
process.send?.(proxy.proxy[0]?.port)
