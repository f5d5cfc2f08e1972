/**
 * Tells systemd how far this service is (sd_notify(3)): READY=1 once it listens, STOPPING=1 once it drains.
 *
 * The message is one datagram to a Unix socket, which Node cannot send, so systemd's own program sends it. Where that
 * is missing the message is lost; a unit of Type=notify would then wait in vain, and one of Type=exec asks for none.
 */
import { spawn } from 'node:child_process'

export type ServiceState = 'READY=1' | 'STOPPING=1'

/** Tells it; resolves with what went wrong, for people, or undefined. Never rejects. */
export type NotifyService = (state: ServiceState) => Promise<string | undefined>

const PROGRAM = 'systemd-notify'
/** How long it may take: it waits until systemd has read the message. */
const TIMEOUT_MS = 5000

/**
 * @param socket NOTIFY_SOCKET of the environment; undefined when nobody wants to know
 * @param environment of this process; the program gets the socket in addition
 */
export function createNotify(
  socket: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): NotifyService {
  if (socket === undefined || socket === '') return () => Promise.resolve(undefined)
  const env = { ...environment, NOTIFY_SOCKET: socket }
  return state =>
    new Promise(resolve => {
      const told = (problem: string): void => resolve(`${PROGRAM} ${state}: ${problem}`)
      try {
        const child = spawn(PROGRAM, [state], { stdio: 'ignore', env })
        // The time limit of spawn itself would go on after a program that cannot be started, and hold up our own end.
        const timer = setTimeout(() => child.kill(), TIMEOUT_MS)
        child.on('error', error => {
          clearTimeout(timer)
          told(error.message)
        })
        child.on('exit', (code, signal) => {
          clearTimeout(timer)
          if (code === 0) resolve(undefined)
          else told(`ended with ${code ?? signal}`)
        })
      } catch (error) {
        told(String(error))
      }
    })
}
