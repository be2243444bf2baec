import { type INestApplication, ValidationPipe, VersioningType } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import helmet from 'helmet';
import { mcpCors } from 'nestjs-mcp-streamable';

/** Pages that may call the app. */
export const ORIGINS = (process.env['ORIGINS'] ?? 'http://localhost:5173').split(',');

/** What `main.ts` and the tests do to the app before it starts. */
export function configure(app: INestApplication): void {
  app.use(helmet());
  // MCP: mcpCors() lets pages read `Mcp-Session-Id`, and send DELETE and the headers of the protocol.
  app.enableCors({ origin: ORIGINS, credentials: true, ...mcpCors() });
  // MCP: the endpoint is below the prefix, at /api/mcp.
  app.setGlobalPrefix('api');
  // MCP: the endpoint has no version, also with a default for the routes; the protocol has revisions of its own.
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
  // MCP: for tools too. It sees `@McpArgs()` after the rules of its class, and refuses properties that the class has not.
  app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true }));

  const description = new DocumentBuilder().setTitle('Orders').addBearerAuth().build();
  // MCP: the endpoint leaves itself out of the document.
  SwaggerModule.setup('docs', app, () => SwaggerModule.createDocument(app, description));
}
