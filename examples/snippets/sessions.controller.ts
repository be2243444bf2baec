// #region admin
import {
  Controller,
  Delete,
  Get,
  Inject,
  NotFoundException,
  Param,
  UseGuards,
} from '@nestjs/common';
import {
  type McpCounts,
  type McpSessionDetails,
  McpSessionService,
} from 'nestjs-mcp-streamable';
import { TokenGuard } from './token.guard.js';

@Controller('admin/sessions')
@UseGuards(TokenGuard)
export class SessionsController {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  @Get()
  list(): Promise<McpSessionDetails[]> {
    return this.sessions.list();
  }

  @Get('counts')
  counts(): Promise<McpCounts> {
    return this.sessions.counts();
  }

  @Delete(':id')
  async terminate(@Param('id') id: string): Promise<void> {
    if (!(await this.sessions.terminate(id))) throw new NotFoundException();
  }
}
// #endregion
