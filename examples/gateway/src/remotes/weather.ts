import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  image,
  McpArgs,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Prompt,
  ResourceTemplate,
  text,
  Tool,
} from 'nestjs-mcp-streamable';
import { z } from 'zod';

const City = z.object({ city: z.string() });
type City = z.infer<typeof City>;
const SUN = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';

@Injectable()
class Weather {
  @Tool({ name: 'forecast', description: 'Forecasts the weather of a city', inputSchema: City })
  async forecast(@McpArgs() { city }: City, @McpCtx() ctx: McpContext) {
    for (let day = 1; day <= 3; day++) await ctx.progress(day, 3, `day ${day}`);
    return [text(`Three days of sun in ${city}.`), image(Buffer.from(SUN, 'base64'))];
  }

  @ResourceTemplate({ uriTemplate: 'weather://{city}/today', name: 'today', description: 'The weather of today' })
  today(@McpArgs() { city }: City): string {
    return `Sun in ${city}.`;
  }

  @Prompt({ name: 'plan_day', description: 'Plans a day in a city', arguments: [{ name: 'city', required: true }] })
  planDay(@McpArgs() { city }: City): string {
    return `Look at the weather of ${city}, and plan a day there.`;
  }
}

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'weather', version: '1.0.0' } })],
  providers: [Weather],
})
class WeatherModule {}

const app = await NestFactory.create(WeatherModule, { logger: ['error', 'warn'], forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT']), '127.0.0.1');
