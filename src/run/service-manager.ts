/**
 * Notifies systemd of the state of this service (sd_notify(3)): READY=1 once it listens, STOPPING=1 once it drains.
 *
 * The message is a datagram to a Unix socket, which Node cannot send, so systemd's own program sends it. If that
 * program is missing, the message is lost; a unit of Type=notify would then time out, while one of Type=exec needs no
 * message.
 */
import { spawn } from 'node:child_process'

export type ServiceState = 'READY=1' | 'STOPPING=1'

/** Sends the notification; resolves with an error message for people, or undefined. Never rejects. */
export type NotifyService = (state: ServiceState) => Promise<string | undefined>

const PROGRAM = 'systemd-notify'
/** The program waits until systemd has read the message. */
const TIMEOUT_MS = 5000

/**
 * @param socket NOTIFY_SOCKET of the environment; undefined when no notification is expected
 * @param environment of this process; the program receives the socket in addition
 */
export function createNotify(
  socket: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): NotifyService {
  if (socket === undefined || socket === '') return () => Promise.resolve(undefined)
  const env = { ...environment, NOTIFY_SOCKET: socket }
  return state =>
    new Promise(resolve => {
      const failed = (problem: string): void => resolve(`${PROGRAM} ${state}: ${problem}`)
      try {
        const child = spawn(PROGRAM, [state], { stdio: 'ignore', env })
        // The timeout option of spawn would keep its timer after a failed start, and delay the exit of this process.
        const timer = setTimeout(() => child.kill(), TIMEOUT_MS)
        child.on('error', error => {
          clearTimeout(timer)
          failed(error.message)
        })
        child.on('exit', (code, signal) => {
          clearTimeout(timer)
          if (code === 0) resolve(undefined)
          else failed(`ended with ${code ?? signal}`)
        })
      } catch (error) {
        failed(String(error))
      }
    })
}
