/** The status page of two worker processes, in a real browser, while parents are down. */
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import type { Page } from 'playwright-core'
import { freePort } from '../kit/peers/free-port.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { needs } from '../kit/processes/command.js'
import { ANY_HOST, connectTo } from '../kit/proxies/setups.js'
import { artifactsFolder, BROWSER, openPage, screenshot, startBrowser } from './browser.js'
import { needsBuild, type Sluice, startSluice } from './program.js'

const skip = needsBuild() || needs(BROWSER)

async function fail(t: Test, { proxyPort }: Sluice, authority: string): Promise<void> {
  const client = await rawClient(t, proxyPort)
  client.write(connectTo(authority))
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 /)
  client.destroy()
}

/** A parent that accepts every tunnel. */
async function parentAt(t: Test, port: number): Promise<void> {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => server.close())
}

const stateOf = (page: Page) => page.locator('#state')

t.test(
  'a parent that is down stands at the top, its failures in a list and in the chart',
  { skip },
  async t => {
    const port = await freePort()
    const parent = `http://127.0.0.1:${port}`
    const listen = 'version: 1\nworkers: 2\nlisten: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }\n'
    const sluice = await startSluice(t, `${listen}parent: { url: "${parent}" }\n${ANY_HOST}`)
    const browser = await startBrowser(t)
    const folder = await artifactsFolder(t)
    const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, {
      viewport: { width: 1280, height: 900 },
    })
    await stateOf(page).getByText('ready', { exact: true }).waitFor()
    t.equal(await page.locator('#trouble').isVisible(), false)
    t.equal(await page.getByText('Nothing has failed.').isVisible(), true)

    for (let i = 0; i < 6; i++) await fail(t, sluice, 'a.example:443')
    await fail(t, sluice, 'b.example:443')
    await stateOf(page).getByText('parent down', { exact: true }).waitFor()
    t.equal(await stateOf(page).getAttribute('data-state'), 'failing', 'not the state that is green')
    t.equal(await page.title(), 'Sluice: parent down')
    const trouble = page.locator('#trouble')
    t.match(await trouble.textContent(), `No parent proxy can be reached. ${parent}: connection refused`)
    const failures = page.locator('#failures > li')
    await failures.filter({ hasText: 'b.example:443' }).waitFor()
    t.equal(await failures.count(), 2)
    const first = failures.filter({ hasText: 'a.example:443' })
    await first.getByText(/^6×, \d+ s ago$/).waitFor()
    t.match(await first.textContent(), /connection_refused/)
    t.match(await first.textContent(), `parent.url points to ${parent}: connection refused`)
    t.match(await page.locator('#chart-requests .legend').textContent(), 'failed')
    t.match(await page.locator('#upstreams').textContent(), parent)
    await screenshot(page, folder, 'status-failures-light')
    for (const colorScheme of ['light', 'dark'] as const) {
      const small = await openPage(t, browser, `${sluice.adminUrl}/`, {
        viewport: { width: 360, height: 800 },
        colorScheme,
      })
      await small.page.locator('#failures > li').first().waitFor()
      const overflow = await small.page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )
      t.equal(overflow, 0, colorScheme)
      await screenshot(small.page, folder, `status-failures-${colorScheme}-360`)
      t.same(small.complaints, [])
      await small.page.close()
    }

    await parentAt(t, port)
    // Each worker finds this out by a request of its own.
    for (let tunnels = 0; (await stateOf(page).textContent()) !== 'ready' && tunnels < 100; tunnels++) {
      const client = await rawClient(t, sluice.proxyPort)
      client.write(connectTo('c.example:443'))
      t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
      client.destroy()
      await page.evaluate('new Promise(resolve => setTimeout(resolve, 200))')
    }
    await stateOf(page).getByText('ready', { exact: true }).waitFor()
    t.equal(await trouble.isVisible(), false)
    t.equal(await failures.count(), 2, 'what has failed is still listed')
    t.same(complaints, [])
  },
)

t.test('when most requests fail it says so at the top, also without a parent', { skip }, async t => {
  const dnsPort = await freePort()
  const sluice = await startSluice(
    t,
    `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
dns: { servers: ["127.0.0.1:${dnsPort}"], timeout: 2s }
rules: { web: { hosts: ["*"] } }
`,
  )
  const browser = await startBrowser(t)
  const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`)
  await stateOf(page).getByText('ready', { exact: true }).waitFor()
  await Promise.all(
    Array.from({ length: 12 }, async (_, i) => {
      const client = await rawClient(t, sluice.proxyPort)
      client.write(connectTo(`h${i}.example:443`))
      t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 50[24] /)
      client.destroy()
    }),
  )
  await stateOf(page).getByText('requests fail', { exact: true }).waitFor()
  t.match(await page.locator('#trouble').textContent(), 'All requests fail. 12 of 12 in the last 60 s.')
  t.equal(await page.locator('#failures > li').count(), 12)
  t.same(complaints, [])
})
